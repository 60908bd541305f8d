// What waits for the writer's thread, bounded in items and in bytes of reports. Work waits in
// lanes, one for each run. The writer takes from the lane that has used least of its time, so that
// a run with a backlog does not hold up the others; within a lane work keeps its order.
//
//   Inbox inbox({.items_max = 1 << 20, .bytes_max = 64 << 20}, &stats);
//   FORESHOCK_RETURN_IF_ERROR(inbox.Reserve("exp-42", bytes));           // on the stream's thread
//   FORESHOCK_RETURN_IF_ERROR(inbox.Put("exp-42", ReportWork{...}));
//   while (std::optional<Work> work = inbox.Take(absl::Milliseconds(100))) {   // on the writer's
//     Handle(*work);
//     inbox.Done(time_that_took);
//   }
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
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

// Thread-safe; Take and Done from one thread.
class Inbox {
 public:
  struct Options {
    size_t items_max = 1u << 20;
    size_t bytes_max = 64u << 20;
  };
  // The lane of work that belongs to no run, or need not wait for what a run has sent.
  static constexpr char kControl[] = "";

  // `stats` outlives it; its queue_bytes and queue_refusals are kept here.
  Inbox(Options options, PipelineStats* stats) : options_(options), stats_(stats) {}

  // Room for a report of the run, before it is summarised. A run may hold four times what it leaves
  // free to the others, so the first one never takes everything. One report of a run always finds
  // room while there is any. Errors: ResourceExhausted when there is none or the store cannot be
  // written, Unavailable once the daemon drains.
  absl::Status Reserve(const std::string& run, size_t bytes);

  // Errors: ResourceExhausted when the inbox is full, Unavailable once it is closed. What a report
  // had reserved is then given back.
  absl::Status Put(const std::string& lane, Work work);

  // For what must not be lost when the inbox is full: ends of streams, at most one a stream.
  void PutAlways(const std::string& lane, Work work);

  // A call that waits until everything that was put in before it is done. Full or not; Unavailable
  // once the inbox is closed.
  absl::Status PutBehindAll(CallWork call);

  // From now on no report is taken. True the first time.
  bool Drain() { return !draining_.exchange(true); }
  bool draining() const { return draining_; }
  static absl::Status DrainingError();

  // Nothing more is taken; what is inside can still be taken out.
  void Close();
  bool closed() const;
  size_t size() const;

  // Waits at most `timeout`; nothing when no work came, or it is closed and empty.
  std::optional<Work> Take(absl::Duration timeout);

  // The work that was taken last is done and has kept the writer so long. Gives back what a report
  // had reserved.
  void Done(absl::Duration used);

 private:
  struct Item {
    uint64_t ticket;  // order over all lanes
    Work work;
  };
  struct Lane {
    std::string name;
    std::deque<Item> items{};
    size_t bytes = 0;       // reserved by reports that are not done
    absl::Duration used{};  // of the writer's time, counted from the least of those that waited
    bool waits = false;     // in waiting_
  };
  // What sorts a lane: the time it used, then the age of its work.
  using Place = std::tuple<absl::Duration, uint64_t, Lane*>;

  Lane& LaneOf(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const std::string& lane, Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wait(Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(size_t bytes, Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Work TakeNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  PipelineStats* const stats_;
  std::atomic<bool> draining_{false};

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::map<std::string, Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  std::set<Place> waiting_ ABSL_GUARDED_BY(mutex_);  // lanes with work, but not the served one
  std::deque<Item> behind_all_ ABSL_GUARDED_BY(mutex_);
  Lane* served_ ABSL_GUARDED_BY(mutex_) = nullptr;       // of the work that was taken last
  size_t served_bytes_ ABSL_GUARDED_BY(mutex_) = 0;      // reserved by it
  absl::Duration least_used_ ABSL_GUARDED_BY(mutex_){};  // of the lane that was served last
  uint64_t tickets_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t items_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace foreshock::pipeline
