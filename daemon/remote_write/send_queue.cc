#include "daemon/remote_write/send_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/notify/retry_clock.h"

namespace foreshock::remote_write {
namespace {

// A receiver that comes back is not to wait much longer than it was away.
constexpr absl::Duration kRetryWaitMax = absl::Seconds(30);

}  // namespace

RemoteSendQueue::RemoteSendQueue(Options options, std::unique_ptr<notify::HttpPoster> poster,
                                 std::function<double()> random)
    : options_(std::move(options)), poster_(std::move(poster)), random_(std::move(random)) {}

void RemoteSendQueue::Drop(const EncodedRequest& request, uint64_t* counter) {
  *counter += request.samples;
  stats_.queue_samples -= request.samples;
  stats_.queue_bytes -= request.body.size();
}

void RemoteSendQueue::Add(std::vector<EncodedRequest> requests) {
  base::MutexLock lock(&mutex_);
  for (EncodedRequest& request : requests) {
    stats_.queue_samples += request.samples;
    stats_.queue_bytes += request.body.size();
    waiting_.push_back(std::move(request));
  }
  while (stats_.queue_bytes > options_.bytes_max && !waiting_.empty()) {
    Drop(waiting_.front(), &stats_.dropped);
    waiting_.pop_front();
    base::LogEvery(absl::StrCat("remote_write.full.", options_.name), base::LogLevel::kWarning,
                   "remote_write",
                   absl::StrCat("'", options_.name, "': no room for more than ", options_.bytes_max,
                                " bytes (queue_bytes_max); the oldest samples are dropped"));
  }
}

absl::Time RemoteSendQueue::Turn(absl::Time now) {
  const EncodedRequest* head = nullptr;
  {
    base::MutexLock lock(&mutex_);
    if (!head_.has_value() && waiting_.empty()) return absl::InfiniteFuture();
    if (now < not_before_) return not_before_;
    if (!head_.has_value()) {
      head_ = std::move(waiting_.front());
      waiting_.pop_front();
    }
    head = &*head_;  // nobody else takes it away
  }
  const notify::SendResult result =
      notify::ResultOf(poster_->Post(options_.url, options_.headers, head->body), *poster_);
  base::MutexLock lock(&mutex_);
  Judge(result, now);
  if (!head_.has_value() && waiting_.empty()) return absl::InfiniteFuture();
  return std::max(now, not_before_);
}

void RemoteSendQueue::Judge(const notify::SendResult& result, absl::Time now) {
  switch (result.outcome) {
    case notify::SendResult::Outcome::kTaken:
      Drop(*head_, &stats_.sent);
      stats_.last_success = now;
      break;
    case notify::SendResult::Outcome::kRefused:
      Drop(*head_, &stats_.refused);
      base::LogEvery(absl::StrCat("remote_write.refused.", options_.name), base::LogLevel::kWarning,
                     "remote_write",
                     absl::StrCat("'", options_.name,
                                  "' refuses samples for good: ", result.status.message()));
      break;
    case notify::SendResult::Outcome::kRetry: {
      ++failures_;
      ++stats_.retries;
      const absl::Duration wait = std::min(notify::Backoff(failures_, random_()), kRetryWaitMax);
      not_before_ = now + std::max(wait, result.retry_after);
      base::LogEvery(absl::StrCat("remote_write.retry.", options_.name), base::LogLevel::kWarning,
                     "remote_write",
                     absl::StrCat("'", options_.name,
                                  "' does not take samples now: ", result.status.message()));
      return;
    }
  }
  head_.reset();
  failures_ = 0;
  not_before_ = absl::InfinitePast();
}

RemoteWriteStats RemoteSendQueue::stats() const {
  base::MutexLock lock(&mutex_);
  return stats_;
}

}  // namespace foreshock::remote_write
