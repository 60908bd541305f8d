// What one stream still has to tell its sender: merges the sink's acks and the rejections made
// before the sink into one cumulative Ack, so that a slow reader costs one message, not many.
// Thread-compatible.
//
//   acks.Submitting(7);                       // before the sink is called: it may ack at once
//   if (!Submit(report)) acks.NotSubmitted(); // the sink did not take it
//   acks.RejectHere(8, rejection);            // acknowledged once 7 is
//   if (acks.HasAck()) Send(acks.Take());
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "foreshock/v1/ingest.pb.h"

namespace foreshock::ingest {

class AckQueue {
 public:
  void Submitting(uint64_t seq);
  void NotSubmitted() { submitted_ = submitted_before_; }
  // A report that never reaches the sink.
  void RejectHere(uint64_t seq, v1::Rejection rejection);
  // Only once AllCommitted(), so that the next Ack can only be the Goodbye's.
  void SubmittingGoodbye() { goodbye_open_ = true; }
  void GoodbyeNotSubmitted() { goodbye_open_ = false; }

  void OnAck(const v1::Ack& ack);

  // Nothing submitted is without its ack.
  bool AllCommitted() const { return committed_ >= submitted_ && !goodbye_open_; }

  bool HasAck() const { return has_ack_; }
  v1::Ack Take();
  size_t rejections() const { return waiting_.size() + next_.rejections_size(); }

 private:
  struct Waiting {
    uint64_t after;  // acknowledged once this seq is committed
    v1::Rejection rejection;
  };

  void ReleaseWaiting();

  uint64_t submitted_ = 0;         // newest seq the sink has taken
  uint64_t submitted_before_ = 0;  // the one before
  uint64_t committed_ = 0;         // newest seq the sink has acknowledged
  bool goodbye_open_ = false;
  std::deque<Waiting> waiting_;
  v1::Ack next_;  // its seq is the newest that may be told
  bool has_ack_ = false;
};

}  // namespace foreshock::ingest
