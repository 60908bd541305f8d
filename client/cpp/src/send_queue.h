// Reports that the daemon has not committed yet, in the order in which they are sent: first those
// written to the present stream, then those that wait. Pure bookkeeping; thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "foreshock/v1/ingest.pb.h"

namespace foreshock::client_internal {

struct QueuedReport {
  uint64_t seq = 0;
  size_t bytes = 0;
  uint32_t written = 0;     // to how many streams
  v1::PushRequest request;  // a report; touched by the sending thread alone
};

using QueuedReports = std::vector<std::shared_ptr<QueuedReport>>;

class SendQueue {
 public:
  struct Options {
    size_t bytes_max = 0;
    size_t reports_max = 0;
  };
  explicit SendQueue(Options options) : options_(options) {}

  bool HasRoom(size_t bytes) const {
    return bytes_ + bytes <= options_.bytes_max && reports_.size() < options_.reports_max;
  }
  // There must be room. `seq` is larger than any before.
  void Push(v1::Report report, uint64_t seq, size_t bytes);

  bool HasUnsent() const { return sent_ < reports_.size(); }
  // The first unsent report, which counts as sent from now on.
  std::shared_ptr<QueuedReport> Next();

  // Takes out everything up to `seq`.
  QueuedReports Acknowledge(uint64_t seq);
  // A new stream begins: everything left is unsent.
  void Rewind() { sent_ = 0; }
  // Takes out one report, wherever it is; null if it is not there.
  std::shared_ptr<QueuedReport> Remove(uint64_t seq);
  // Takes out the largest report that was sent; null if none was.
  std::shared_ptr<QueuedReport> RemoveLargestSent();
  // Takes out what is larger than `bytes`.
  QueuedReports RemoveLargerThan(size_t bytes);
  // Moves a report to the end under a new, larger seq; false if it is not there.
  bool Requeue(uint64_t seq, uint64_t new_seq);
  QueuedReports Clear();

  size_t size() const { return reports_.size(); }
  size_t bytes() const { return bytes_; }
  uint64_t last_sent_seq() const { return last_sent_seq_; }  // on any stream; 0: none

 private:
  std::shared_ptr<QueuedReport> RemoveAt(size_t index);

  const Options options_;
  std::deque<std::shared_ptr<QueuedReport>> reports_;  // by seq
  size_t sent_ = 0;                                    // the first so many are sent
  size_t bytes_ = 0;
  uint64_t last_sent_seq_ = 0;
};

}  // namespace foreshock::client_internal
