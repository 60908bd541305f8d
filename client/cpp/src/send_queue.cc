#include "client/cpp/src/send_queue.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace foreshock::client_internal {

void SendQueue::Push(v1::Report report, uint64_t seq, size_t bytes) {
  assert(reports_.empty() || reports_.back()->seq < seq);
  auto queued = std::make_shared<QueuedReport>();
  queued->seq = seq;
  queued->bytes = bytes;
  *queued->request.mutable_report() = std::move(report);
  reports_.push_back(std::move(queued));
  bytes_ += bytes;
}

std::shared_ptr<QueuedReport> SendQueue::Next() {
  assert(HasUnsent());
  std::shared_ptr<QueuedReport> next = reports_[sent_++];
  ++next->written;
  last_sent_seq_ = std::max(last_sent_seq_, next->seq);
  return next;
}

QueuedReports SendQueue::Acknowledge(uint64_t seq) {
  QueuedReports done;
  while (!reports_.empty() && reports_.front()->seq <= seq) done.push_back(RemoveAt(0));
  return done;
}

std::shared_ptr<QueuedReport> SendQueue::Remove(uint64_t seq) {
  const auto at =
      std::lower_bound(reports_.begin(), reports_.end(), seq,
                       [](const auto& report, uint64_t wanted) { return report->seq < wanted; });
  if (at == reports_.end() || (*at)->seq != seq) return nullptr;
  return RemoveAt(static_cast<size_t>(at - reports_.begin()));
}

std::shared_ptr<QueuedReport> SendQueue::RemoveLargestSent() {
  if (sent_ == 0) return nullptr;
  size_t largest = 0;
  for (size_t i = 1; i < sent_; ++i) {
    if (reports_[i]->bytes > reports_[largest]->bytes) largest = i;
  }
  return RemoveAt(largest);
}

QueuedReports SendQueue::RemoveLargerThan(size_t bytes) {
  QueuedReports removed;
  for (size_t i = 0; i < reports_.size();) {
    if (reports_[i]->bytes > bytes) {
      removed.push_back(RemoveAt(i));
    } else {
      ++i;
    }
  }
  return removed;
}

bool SendQueue::Requeue(uint64_t seq, uint64_t new_seq) {
  std::shared_ptr<QueuedReport> report = Remove(seq);
  if (report == nullptr) return false;
  report->seq = new_seq;
  bytes_ += report->bytes;
  reports_.push_back(std::move(report));
  return true;
}

QueuedReports SendQueue::Clear() {
  QueuedReports removed(reports_.begin(), reports_.end());
  reports_.clear();
  sent_ = 0;
  bytes_ = 0;
  return removed;
}

std::shared_ptr<QueuedReport> SendQueue::RemoveAt(size_t index) {
  std::shared_ptr<QueuedReport> report = std::move(reports_[index]);
  reports_.erase(reports_.begin() + static_cast<std::ptrdiff_t>(index));
  if (index < sent_) --sent_;
  bytes_ -= report->bytes;
  return report;
}

}  // namespace foreshock::client_internal
