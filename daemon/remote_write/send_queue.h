// Requests on their way to one receiver, in order: what it does not take now is sent again, what it
// will never take is dropped, and what waits is bounded.
//
//   queue.Add(encoder.Encode(...));
//   absl::Time next = queue.Turn(clock.Now());   // sends one; call again at `next`, or after an
//   Add
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/notify/http_client.h"
#include "daemon/remote_write/encoder.h"

namespace foreshock::remote_write {

struct RemoteWriteStats {
  uint64_t sent = 0;     // samples that the receiver has taken
  uint64_t refused = 0;  // that it will never take: wrong, too old, not allowed
  uint64_t dropped = 0;  // that found no room while they waited
  uint64_t retries = 0;  // requests that had to be sent again
  size_t queue_samples = 0;
  size_t queue_bytes = 0;
  absl::Time last_success = absl::InfinitePast();
};

// Turn on one thread; the rest is thread-safe.
class RemoteSendQueue {
 public:
  struct Options {
    std::string name{};  // in log lines
    std::string url{};
    std::vector<std::string> headers{};
    size_t bytes_max = 16u << 20;
  };

  // `random` gives a number in [0, 1), for the jitter of retries.
  RemoteSendQueue(Options options, std::unique_ptr<notify::HttpPoster> poster,
                  std::function<double()> random);

  // Drops the oldest that wait where there is no room.
  void Add(std::vector<EncodedRequest> requests);

  // Sends the oldest request if its time has come; bounded by the poster's timeout. When to call
  // again: InfiniteFuture while there is nothing to send.
  absl::Time Turn(absl::Time now);

  // Makes a Turn that runs, and all after it, end soon.
  void Cancel() { poster_->Cancel(); }

  RemoteWriteStats stats() const;

 private:
  void Judge(const notify::SendResult& result, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const EncodedRequest& request, uint64_t* counter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::unique_ptr<notify::HttpPoster> poster_;
  const std::function<double()> random_;

  mutable base::Mutex mutex_;
  std::deque<EncodedRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<EncodedRequest> head_ ABSL_GUARDED_BY(mutex_);  // being sent, or to be sent again
  absl::Time not_before_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;
  RemoteWriteStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::remote_write
