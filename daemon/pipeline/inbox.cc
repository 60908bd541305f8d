#include "daemon/pipeline/inbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace foreshock::pipeline {
namespace {

size_t ReservedBy(const Work& work) {
  const auto* report = std::get_if<ReportWork>(&work);
  return report == nullptr ? 0 : report->bytes;
}

// So many times what it leaves free a run may hold of the queue.
constexpr size_t kShareOfFree = 4;

}  // namespace

absl::Status Inbox::DrainingError() {
  return absl::UnavailableError("the daemon is shutting down; reconnect in a moment");
}

absl::Status Inbox::Reserve(const std::string& run, size_t bytes) {
  if (draining_) return DrainingError();
  if (!stats_->store_writable) {
    return absl::ResourceExhaustedError(
        "the store cannot be written (see the daemon's log); nothing is taken until it can");
  }
  base::MutexLock lock(&mutex_);
  const size_t all = stats_->queue_bytes;
  const size_t free = options_.bytes_max - std::min(options_.bytes_max, all);
  const auto known = lanes_.find(run);
  const size_t own = known == lanes_.end() ? 0 : known->second.bytes;
  const bool fits = bytes <= free && own + bytes <= kShareOfFree * (free - bytes);
  if (!fits && !(own == 0 && (bytes <= free || all == 0))) {
    ++stats_->queue_refusals;
    return absl::ResourceExhaustedError(absl::StrCat("the ingest queue holds ", all, " of ",
                                                     options_.bytes_max, " bytes, ", own,
                                                     " of them of this run"));
  }
  LaneOf(run).bytes += bytes;
  stats_->queue_bytes += bytes;
  return absl::OkStatus();
}

absl::Status Inbox::Put(const std::string& lane, Work work) {
  base::MutexLock lock(&mutex_);
  if (!closed_ && items_ < options_.items_max) {
    Add(lane, std::move(work));
    return absl::OkStatus();
  }
  if (const size_t bytes = ReservedBy(work); bytes > 0) GiveBack(bytes, &LaneOf(lane));
  if (closed_) return DrainingError();
  ++stats_->queue_refusals;
  return absl::ResourceExhaustedError(
      absl::StrCat("the ingest queue holds ", options_.items_max, " items"));
}

void Inbox::PutAlways(const std::string& lane, Work work) {
  base::MutexLock lock(&mutex_);
  // A closed inbox means that the pipeline has stopped: nobody is left to be told.
  if (!closed_) Add(lane, std::move(work));
}

absl::Status Inbox::PutBehindAll(CallWork call) {
  base::MutexLock lock(&mutex_);
  if (closed_) return DrainingError();
  behind_all_.push_back({tickets_++, std::move(call)});
  ++items_;
  changed_.NotifyOne();
  return absl::OkStatus();
}

void Inbox::Close() {
  base::MutexLock lock(&mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

bool Inbox::closed() const {
  base::MutexLock lock(&mutex_);
  return closed_;
}

size_t Inbox::size() const {
  base::MutexLock lock(&mutex_);
  return items_;
}

std::optional<Work> Inbox::Take(absl::Duration timeout) {
  base::MutexLock lock(&mutex_);
  while (items_ == 0 && !closed_ && timeout > absl::ZeroDuration()) {
    if (!changed_.WaitFor(&mutex_, timeout)) break;
  }
  if (items_ == 0) return std::nullopt;
  --items_;
  return TakeNow();
}

Work Inbox::TakeNow() {
  // Until a call that waits for everything before it is at the head, only what came before it.
  const auto may_go = [this](const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return behind_all_.empty() || std::get<1>(place) < behind_all_.front().ticket;
  };
  const auto next = std::find_if(waiting_.begin(), waiting_.end(), may_go);
  if (next == waiting_.end()) {
    Work call = std::move(behind_all_.front().work);
    behind_all_.pop_front();
    return call;
  }
  served_ = std::get<2>(*next);
  waiting_.erase(next);
  served_->waits = false;
  least_used_ = served_->used;
  Work work = std::move(served_->items.front().work);
  served_->items.pop_front();
  served_bytes_ = ReservedBy(work);
  return work;
}

void Inbox::Done(absl::Duration used) {
  base::MutexLock lock(&mutex_);
  Lane* const lane = std::exchange(served_, nullptr);
  if (lane == nullptr) return;  // a call behind all
  lane->used += used;
  if (!lane->items.empty()) Wait(lane);
  GiveBack(served_bytes_, lane);
}

Inbox::Lane& Inbox::LaneOf(const std::string& name) {
  return lanes_.try_emplace(name, Lane{.name = name, .used = least_used_}).first->second;
}

void Inbox::Add(const std::string& name, Work work) {
  Lane& lane = LaneOf(name);
  lane.items.push_back({tickets_++, std::move(work)});
  ++items_;
  if (&lane != served_ && !lane.waits) {
    // Time in which it had nothing to do is no credit.
    lane.used = std::max(lane.used, least_used_);
    Wait(&lane);
  }
  changed_.NotifyOne();
}

void Inbox::Wait(Lane* lane) {
  waiting_.emplace(lane->used, lane->items.front().ticket, lane);
  lane->waits = true;
}

void Inbox::GiveBack(size_t bytes, Lane* lane) {
  lane->bytes -= bytes;
  stats_->queue_bytes -= bytes;
  if (lane->bytes == 0 && lane->items.empty() && lane != served_) {
    lanes_.erase(lane->name);
  }
}

}  // namespace foreshock::pipeline
