// What waits for the writer's thread, bounded in items and in bytes of reports. A stream or a
// caller puts work in; the writer takes it out in the same order.
//
//   Inbox inbox({.items_max = 1 << 20, .bytes_max = 64 << 20}, &stats);
//   FORESHOCK_RETURN_IF_ERROR(inbox.Reserve(report.ByteSizeLong()));     // on the stream's thread
//   FORESHOCK_RETURN_IF_ERROR(inbox.Put(ReportWork{...}));
//   for (Work& work : inbox.Take(absl::Milliseconds(100), 4096)) ...     // on the writer's thread
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/bounded_queue.h"
#include "daemon/model/shards.pb.h"
#include "daemon/pipeline/stats.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::pipeline {

class RankStream;

struct ReportWork {
  std::shared_ptr<RankStream> stream;
  model::ShardReport report{};
  std::vector<v1::Rejection> rejections{};
  size_t bytes = 0;  // reserved
};
struct GoodbyeWork {
  std::shared_ptr<RankStream> stream;
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;
};
struct EndWork {
  std::shared_ptr<RankStream> stream;
};
// `call` runs on the writer's thread; `done` hears of the commit of what it changed.
struct CallWork {
  std::function<absl::Status()> call;
  std::function<void(const absl::Status&)> done;
};
using Work = std::variant<ReportWork, GoodbyeWork, EndWork, CallWork>;

// Thread-safe.
class Inbox {
 public:
  struct Options {
    size_t items_max = 1u << 20;
    size_t bytes_max = 64u << 20;
  };

  // `stats` outlives it; its queue_bytes and queue_refusals are kept here.
  Inbox(Options options, PipelineStats* stats)
      : options_(options),
        stats_(stats),
        queue_({.items_max = options.items_max, .bytes_max = SIZE_MAX}) {}

  // Room for a report, before it is summarised. ResourceExhausted when there is none or the store
  // cannot be written; Unavailable once the daemon drains. One report always finds room when
  // nothing else waits.
  absl::Status Reserve(size_t bytes);

  // Errors: ResourceExhausted when the inbox is full, Unavailable once it is closed. What a report
  // had reserved is then given back.
  absl::Status Put(Work work);

  // For what must not be lost when the inbox is full: ends of streams, at most one a stream.
  void PutAlways(Work work);

  // From now on no report is taken. True the first time.
  bool Drain() { return !draining_.exchange(true); }
  bool draining() const { return draining_; }
  static absl::Status DrainingError();

  // Nothing more is taken; what is inside can still be taken out.
  void Close() { queue_.Close(); }
  bool closed() const { return queue_.closed(); }
  size_t size() const { return queue_.size(); }

  // Work in the order in which it was put in; waits for some, at most `timeout`.
  std::vector<Work> Take(absl::Duration timeout, size_t items_max) {
    return queue_.PopAllFor(timeout, items_max);
  }
  // What the report had reserved, once the writer has merged it.
  void Release(const ReportWork& report) { stats_->queue_bytes -= report.bytes; }

 private:
  const Options options_;
  PipelineStats* const stats_;
  base::BoundedQueue<Work> queue_;
  std::atomic<bool> draining_{false};
};

}  // namespace foreshock::pipeline
