// The order of messages inside a capture: a stream is a Hello, then Reports, then at most one
// Goodbye. Held by the reader and by the writer. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "foreshock/v1/capture.pb.h"

namespace foreshock::capture {

class StreamOrder {
 public:
  // InvalidArgument with the reason if `record` may not follow those seen before; it is then not
  // counted as seen.
  absl::Status Check(const v1::CaptureRecord& record);

  static constexpr size_t kStreamsMax = 1u << 20;

 private:
  enum class State : uint8_t { kOpen, kEnded };
  absl::flat_hash_map<uint32_t, State> streams_;
};

}  // namespace foreshock::capture
