// Constants of the .fscap format; docs/formats/capture.md is its description.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace foreshock::capture {

// The first seven bytes; CR LF shows a transfer that rewrote line ends. The version byte follows.
inline constexpr absl::string_view kFscapMagic = "FSCAP\r\n";
inline constexpr uint8_t kFscapVersion = 1;
inline constexpr size_t kFscapHeaderBytes = 8;

// A frame is closed when it holds this much, so that a reader never needs more than a frame and one
// record in memory.
inline constexpr size_t kFrameContentBytes = 4u << 20;

// One CaptureRecord, serialised.
inline constexpr size_t kCaptureRecordBytesMax = 64u << 20;

}  // namespace foreshock::capture
