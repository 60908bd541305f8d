// The daemon's core: takes validated reports, merges, computes, judges and commits them, and only
// then acknowledges. One writer's thread owns all state of all runs; what is per payload is
// computed on the callers' threads before.
//
//   Pipeline pipeline(options, {.store = &store, .clock = &clock, .rules = rules,
//                               .listener = &listener});
//   FORESHOCK_RETURN_IF_ERROR(pipeline.Start());   // reads back what a restart left open
//   ... IngestService(&pipeline) ...
//   pipeline.Stop(absl::Seconds(5));
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/ingest/sink.h"
#include "daemon/pipeline/changes.h"
#include "daemon/pipeline/inbox.h"
#include "daemon/pipeline/listener.h"
#include "daemon/pipeline/run_state.h"
#include "daemon/pipeline/stats.h"
#include "daemon/rules/rule_set.h"
#include "daemon/store/store.h"

namespace foreshock::pipeline {

class RankStream;

// Thread-safe.
class Pipeline final : public ingest::ReportSink {
 public:
  struct Options {
    RunState::Options run;
    size_t queue_bytes_max = 64u << 20;                // reports between summarise and commit
    size_t queue_items_max = 1u << 20;                 // of them, goodbyes and calls
    size_t runs_max = 1000;                            // in memory
    size_t open_bytes_max = 512u << 20;                // of open and kept steps, of all runs
    absl::Duration sync_interval = absl::Seconds(1);   // what a power failure can take
    absl::Duration retry_interval = absl::Seconds(1);  // between writes to a store that refuses
    // A round ends, and is committed, with the first of these.
    size_t round_items_max = 4096;
    size_t round_bytes_max = 8u << 20;                        // of reports, as received
    size_t round_points_max = 1u << 16;                       // of closed steps
    absl::Duration round_time_max = absl::Milliseconds(100);  // half of it for closing steps
    v1::Limits limits;                                        // told to clients
    std::string version;
  };
  struct Deps {
    store::Store* store = nullptr;
    const base::Clock* clock = nullptr;
    std::shared_ptr<const rules::RuleSet> rules;
    PipelineListener* listener = nullptr;
  };

  Pipeline(Options options, Deps deps);
  ~Pipeline() override;  // waits for the threads, however long that takes

  // Reads runs that had not ended back from the store and starts the threads.
  absl::Status Start();

  // No new streams; those there are end with Unavailable once what was queued is acknowledged.
  void Drain();
  // Drain, commit what is queued, stop the threads. DeadlineExceeded when that takes longer: the
  // threads then go on, and a later Stop, or the destructor, waits for them again. What was not
  // committed was not acknowledged, so senders repeat it.
  absl::Status Stop(absl::Duration deadline);

  absl::StatusOr<std::unique_ptr<ingest::PushStream>> Open(
      const v1::Hello& hello, ingest::PushStream::AckFn on_ack,
      ingest::PushStream::EndFn on_end) override;

  absl::Status ReplaceRules(std::shared_ptr<const rules::RuleSet> rules);
  // The attempt it was added to. NotFound for an unknown run.
  absl::StatusOr<uint32_t> DeclareEvent(const std::string& run, const v1::Event& event);
  absl::Status PinRun(const std::string& run, bool pinned);
  // FailedPrecondition while a rank is connected.
  absl::StatusOr<uint64_t> DeleteRun(const std::string& run);

  // Changes what was told or said of an alert: `change` gets its newest row on the writer's thread.
  // With `tell` listeners hear of the row. NotFound for an unknown run or alert.
  absl::Status UpdateAlert(const std::string& run, const std::string& id, bool tell,
                           const std::function<void(model::AlertRow*)>& change);
  // Waits until everything that was taken before is committed, or the store has refused it. For
  // the thread that starts and stops. Errors: DeadlineExceeded, and what the store said.
  absl::Status Flush(absl::Duration deadline);

  // How the runs in memory stand, by name; waits for nothing.
  std::map<std::string, std::vector<AttemptStatus>> runs() const;
  const PipelineStats& stats() const { return stats_; }
  size_t queue_items() const { return inbox_.size(); }

 private:
  // On any thread.
  // Waits until the writer's thread has run `call` and committed what it changed. In the lane of a
  // run it waits for what the run has sent before.
  absl::Status CallAndCommit(const std::string& lane, std::function<absl::Status()> call);

  // On the writer's thread.
  void WriterLoop();
  void Handle(ReportWork work);
  void DropWrongTime(const RankStream& stream, model::ShardReport* report);
  bool HasRoom(const RunState& run) const;
  void Handle(GoodbyeWork work);
  void Handle(EndWork work);
  void Handle(CallWork work);
  bool RunRound();  // false: the inbox is closed, and everything is done
  Budget BudgetFor(absl::Duration time) const;
  void Settle(absl::Time now);
  void SettleRuns(absl::Time now);
  void Commit();
  // Commit, and ResourceExhausted if the store does not take it now.
  absl::Status CommitAll();
  void AfterCommit();
  void PublishRuns();
  absl::StatusOr<RunState*> FindRun(const std::string& run, bool create);
  absl::Status LoadUnfinished(const std::string& run);
  absl::Status LoadRun(const std::string& run);
  absl::StatusOr<model::AlertRow> StoredAlert(const std::string& run, const std::string& id);
  absl::Status MakeRoomForRun();

  void SyncLoop();

  // Of the two threads.
  void Ended(bool* ended);
  bool WaitUntil(absl::Time until, const bool& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_mutex_);

  const Options options_;
  const Deps deps_;
  PipelineStats stats_;
  Inbox inbox_;
  std::atomic<StreamId> next_stream_{1};

  // Only on the writer's thread, or before it runs.
  std::shared_ptr<const rules::RuleSet> rules_;
  std::map<std::string, std::unique_ptr<RunState>> runs_;
  absl::flat_hash_map<StreamId, std::shared_ptr<RankStream>> streams_;
  Changes changes_;
  std::map<StreamId, v1::Ack> acks_;  // for after the commit
  std::vector<std::function<void(const absl::Status&)>> done_;
  std::set<std::string> touched_;  // runs that have something to settle
  std::string settled_last_;       // where the next round goes on among them
  std::set<std::string> changed_;  // runs whose connections or attempts changed
  Budget budget_;                  // of this round, for work from the inbox
  size_t open_runs_ = 0;           // that hold open or kept steps
  absl::Time batch_started_;
  absl::Time settle_all_at_ = absl::InfinitePast();
  absl::Time forget_at_ = absl::InfinitePast();
  absl::Time retry_at_ = absl::InfinitePast();

  mutable base::Mutex published_mutex_;
  std::map<std::string, std::vector<AttemptStatus>> published_ ABSL_GUARDED_BY(published_mutex_);

  base::Mutex threads_mutex_;
  base::CondVar threads_changed_;
  bool stop_syncing_ ABSL_GUARDED_BY(threads_mutex_) = false;
  bool writer_ended_ ABSL_GUARDED_BY(threads_mutex_) = false;
  bool syncer_ended_ ABSL_GUARDED_BY(threads_mutex_) = false;

  std::thread writer_;
  std::thread syncer_;
};

}  // namespace foreshock::pipeline
