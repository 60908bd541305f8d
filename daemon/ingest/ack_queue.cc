#include "daemon/ingest/ack_queue.h"

#include <algorithm>
#include <utility>

namespace foreshock::ingest {

void AckQueue::Submitting(uint64_t seq) {
  submitted_before_ = submitted_;
  submitted_ = seq;
}

void AckQueue::RejectHere(uint64_t seq, v1::Rejection rejection) {
  rejection.set_seq(seq);
  waiting_.push_back({submitted_, std::move(rejection)});
  ReleaseWaiting();
}

void AckQueue::OnAck(const v1::Ack& ack) {
  goodbye_open_ = false;
  committed_ = std::max(committed_, ack.seq());
  next_.set_seq(std::max(next_.seq(), ack.seq()));
  next_.set_duplicates(next_.duplicates() + ack.duplicates());
  next_.mutable_rejections()->MergeFrom(ack.rejections());
  has_ack_ = true;
  ReleaseWaiting();
}

void AckQueue::ReleaseWaiting() {
  while (!waiting_.empty() && committed_ >= waiting_.front().after) {
    next_.set_seq(std::max(next_.seq(), waiting_.front().rejection.seq()));
    *next_.add_rejections() = std::move(waiting_.front().rejection);
    waiting_.pop_front();
    has_ack_ = true;
  }
}

v1::Ack AckQueue::Take() {
  v1::Ack ack;
  ack.set_seq(next_.seq());  // stays: the next Ack must not go back
  ack.set_duplicates(next_.duplicates());
  ack.mutable_rejections()->Swap(next_.mutable_rejections());
  next_.set_duplicates(0);
  has_ack_ = false;
  return ack;
}

}  // namespace foreshock::ingest
