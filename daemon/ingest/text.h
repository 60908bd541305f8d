// Checks of names and free text, which end up in logs, labels and pages.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/ingest/field.h"

namespace foreshock::ingest {

// low_bytes..high_bytes bytes of UTF-8 without control characters (C0, DEL, C1).
absl::Status CheckName(const Field& field, absl::string_view text, size_t low_bytes,
                       size_t high_bytes);

// The same, with line breaks and tabs allowed and no least length.
absl::Status CheckText(const Field& field, absl::string_view text, size_t high_bytes);

// `text` cut to 64 bytes and made printable, for an error message.
std::string Quote(absl::string_view text);

}  // namespace foreshock::ingest
