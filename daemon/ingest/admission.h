// Who may come in: counts streams, streams per run and bytes in flight against their limits.
// Thread-safe.
//
//   FORESHOCK_ASSIGN_OR_RETURN(Admission::Stream place, admission.Enter(hello.run()));
//   if (!place.Hold(bytes)) RetryLater();   // until the next Hold, Release or the end of `place`
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/base/mutex.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/limits.h"

namespace foreshock {

class Admission {
 public:
  Admission(const IngestLimits& limits, IngestStats* stats) : limits_(limits), stats_(stats) {}

  // One admitted stream; gives its place and its bytes back at the end. Thread-compatible, movable.
  class Stream {
   public:
    Stream() = default;
    Stream(Stream&& other) noexcept { *this = std::move(other); }
    Stream& operator=(Stream&& other) noexcept;
    ~Stream() { Leave(); }

    // Counts `bytes` as received and not yet taken, instead of what was held before. False, with
    // nothing held, when there is no room; one message always finds room when nothing is in flight.
    [[nodiscard]] bool Hold(size_t bytes);
    void Release();

   private:
    friend class Admission;
    Stream(Admission* admission, std::string run) : admission_(admission), run_(std::move(run)) {}
    void Leave();

    Admission* admission_ = nullptr;  // nullptr: not admitted
    std::string run_;
    size_t held_bytes_ = 0;
  };

  // Errors: ResourceExhausted, naming the limit that is reached.
  absl::StatusOr<Stream> Enter(absl::string_view run);

 private:
  void LeaveRun(const std::string& run);

  const IngestLimits limits_;
  IngestStats* const stats_;
  Mutex mutex_;
  size_t streams_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, size_t> streams_of_run_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock
