// Everything the daemon holds in memory about one run: its attempts, who is connected, the open
// steps and the evaluator. Only on the writer's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/indicators/history.h"
#include "daemon/indicators/snapshots.h"
#include "daemon/merge/open_steps.h"
#include "daemon/model/rows.pb.h"
#include "daemon/pipeline/listener.h"
#include "daemon/pipeline/stats.h"
#include "daemon/rules/evaluator.h"
#include "daemon/store/store.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock {

using StreamId = uint64_t;  // 0: none

// The weight snapshots of one process, shared by its stream and the one that replaces it after a
// reconnect. Used on the callers' threads.
struct SharedSnapshots {
  SharedSnapshots(Snapshots::Options options, PipelineStats* stats)
      : snapshots(options), stats(stats) {}
  ~SharedSnapshots() { stats->snapshot_bytes -= snapshots.bytes(); }

  Mutex mutex;
  Snapshots snapshots ABSL_GUARDED_BY(mutex);
  PipelineStats* const stats;
};

// The same for an event that is declared again: the store has one row of it, too.
uint64_t EventIdentity(const model::EventRow& row);

class RunState {
 public:
  struct Options {
    OpenSteps::Options open_steps;
    Snapshots::Options snapshots;  // per rank
    // After so many steps what the rules remember is stored, or after more where it is large: one
    // for each kibibyte. A restart judges at most so many again.
    int64_t remember_steps = 2048;
  };
  struct Admitted {
    uint32_t attempt = 0;
    uint64_t last_committed_seq = 0;
    std::shared_ptr<SharedSnapshots> snapshots{};
    StreamId replaced = 0;  // an older stream of the same process, to be ended
  };
  enum class Taken { kNew, kDuplicate, kTooLate };
  // What one round of the writer changes; grows until it is committed.
  struct Changes {
    StoreBatch batch;
    std::vector<model::AlertRow> alerts;  // of the batch, those that listeners want to hear of
  };

  RunState(std::string run, Options options, std::shared_ptr<const RuleSet> rules,
           PipelineStats* stats);

  // Reads the run back from the store: attempts, marks, open statistics, alerts, and as much
  // history as the windows need. Returns the alerts that are not resolved.
  absl::StatusOr<std::vector<model::AlertRow>> Load(const Store& store, absl::Time now);

  // A rank says hello. Errors as ReportSink::Open. Changes go into `batch`.
  absl::StatusOr<Admitted> Open(const v1::Hello& hello, StreamId stream, absl::Time now,
                                Changes* changes);
  Taken Add(uint32_t attempt, const model::ShardReport& report, absl::Time now, StoreBatch* batch);
  void Goodbye(uint32_t attempt, uint32_t rank, const std::string& client_instance,
               v1::Outcome outcome, StoreBatch* batch);
  void StreamEnded(uint32_t attempt, uint32_t rank, StreamId stream);

  // Declared from outside the training process, once however often it is said; holds from the first
  // step that closes at or behind the one it names.
  uint32_t Declare(const v1::Event& event, absl::Time now, StoreBatch* batch);
  void SetPinned(bool pinned, StoreBatch* batch);
  void ReplaceRules(std::shared_ptr<const RuleSet> rules, absl::Time now, Changes* changes);
  // The newest row of an alert that goes on or that someone is still to be told of; else null.
  const model::AlertRow* FindAlert(const std::string& id) const;
  // Puts a row that FindAlert gave, changed in what was told or said of it.
  void PutAlert(model::AlertRow row, Changes* changes);

  // Closes what is due, computes and judges it.
  void Settle(absl::Time now, Changes* changes);
  // Lets the rules that need a clock look at it; after Settle.
  void Tick(absl::Time now, Changes* changes);

  std::vector<AttemptStatus> status() const;  // oldest attempt first
  const std::string& run() const { return run_; }
  bool connected() const;
  size_t open_steps() const;
  size_t open_bytes() const;

 private:
  // What the marks, the merge and the indicators need of one attempt.
  struct Attempt {
    model::AttemptRow row;
    v1::ModelShape model;
    std::unique_ptr<OpenSteps> open_steps;
    History history;
    std::map<std::pair<uint32_t, std::string>, model::RankRow> ranks;  // (rank, client_instance)
    absl::flat_hash_map<uint32_t, std::pair<std::string, StreamId>> connected;  // by rank
    std::map<std::pair<uint32_t, std::string>, std::shared_ptr<SharedSnapshots>> snapshots;
    std::map<uint32_t, model::CoactivationRow> coactivation;  // by layer, sum over closed steps
    std::optional<int64_t> settled_written;                   // open statistics deleted up to here
  };

  Attempt& BeginAttempt(const v1::Hello& hello, absl::Time now, Changes* changes);
  absl::StatusOr<uint32_t> FindAttempt(const v1::Hello& hello) const;
  absl::Status LoadAttempt(const Store& store, model::AttemptRow row, absl::Time now);
  // The last step that the evaluator remembers to have judged, and that nobody has to show it
  // again.
  struct Judged {
    uint32_t attempt = 0;  // 0: it remembers nothing
    int64_t step = -1;
  };
  absl::Status PrimeRules(const Store& store);
  absl::StatusOr<Judged> RecallRules(const Store& store);
  void RememberRules(StoreBatch* batch);
  // Tells the evaluator of the attempt, and of what its ranks have announced so far.
  void BeginJudging(uint32_t number);
  void DeclarePlans(const Attempt& attempt);
  void TakeEvents(const SettledStep& step, bool newest, ClosedStep* closed, StoreBatch* batch);
  void CloseSteps(Attempt* attempt, const std::vector<SettledStep>& settled, absl::Time now,
                  Changes* changes);
  void JudgeStep(const ClosedStep& closed, absl::Time now, Changes* changes);
  void AddAlert(model::AlertRow row, absl::Time now, Changes* changes);
  void AddCoactivation(const model::StepShards& merged, Attempt* attempt, StoreBatch* batch);
  void UpdateOutcome(Attempt* attempt, StoreBatch* batch);
  bool IsNewest(const Attempt& attempt) const;

  const std::string run_;
  const Options options_;
  PipelineStats* const stats_;
  std::shared_ptr<const RuleSet> rules_;
  model::RunRow row_;
  bool known_ = false;  // the run has a row in the store
  bool heard_ = false;  // a rank said hello since this process started
  std::map<uint32_t, Attempt> attempts_;
  std::unique_ptr<Evaluator> evaluator_;
  int64_t steps_to_remember_ = 0;  // judged since the evaluator's memory was last written
  int64_t remembered_kib_ = 0;     // size of it then
  // Alerts that go on, and those that are over but of which someone is still to be told: by id.
  std::map<std::string, model::AlertRow> alerts_;
  std::vector<model::EventRow> declared_;  // from outside, for steps that have not closed
  // Identities of all events that came into force or wait: one that comes again is the same.
  absl::flat_hash_set<uint64_t> events_;
};

}  // namespace foreshock
