// Who may come in: counts streams, streams per run, bytes in flight, and what each client has,
// against their limits. Thread-safe.
//
//   FORESHOCK_ASSIGN_OR_RETURN(Admission::Stream place, admission.Enter(hello.run(), client));
//   if (!place.Hold(bytes)) RetryLater();   // until the next Hold, Release or the end of `place`
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/limits.h"

namespace foreshock::ingest {

class Admission {
 public:
  // `stats` and `clock` outlive it.
  Admission(const IngestLimits& limits, IngestStats* stats, const base::Clock* clock)
      : limits_(limits), stats_(stats), clock_(clock) {}

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

    // Counts `bytes` against what the stream's client may send in a second. False, with nothing
    // counted, while it has sent more than that; one message passes as a whole.
    [[nodiscard]] bool Spend(size_t bytes);

   private:
    friend class Admission;
    Stream(Admission* admission, std::string run, std::string client)
        : admission_(admission), run_(std::move(run)), client_(std::move(client)) {}
    void Leave();

    Admission* admission_ = nullptr;  // nullptr: not admitted
    std::string run_;
    std::string client_;
    size_t held_bytes_ = 0;
  };

  // Errors: ResourceExhausted, naming the limit that is reached.
  absl::StatusOr<Stream> Enter(absl::string_view run, absl::string_view client);

 private:
  struct RunUse {
    size_t streams = 0;
    absl::Time last{};  // steady: when the newest of them came or went
  };
  struct ClientUse {
    size_t streams = 0;
    absl::flat_hash_map<std::string, RunUse> runs{};
    double bytes_left = 0;  // below 0: overdrawn
    absl::Time filled{};    // steady: up to when bytes_left is counted
  };

  void LeaveRun(const std::string& run, const std::string& client);
  bool Spend(const std::string& client, double bytes, double rate);
  bool client_limits() const {
    return limits_.client_streams_max > 0 || limits_.client_runs_max > 0 ||
           limits_.client_bytes_per_second_max > 0;
  }
  absl::Status CheckClient(const std::string& client, const std::string& run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const IngestLimits limits_;
  IngestStats* const stats_;
  const base::Clock* const clock_;
  base::Mutex mutex_;
  size_t streams_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, size_t> streams_of_run_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, ClientUse> clients_ ABSL_GUARDED_BY(mutex_);  // with limits only
};

}  // namespace foreshock::ingest
