// One run as the daemon holds it in memory: its row, its attempts and what belongs to the run as a
// whole. It keeps the order of the calls; the work is done by Attempt, Judging, RunAlerts and
// DeclaredEvents.
//
//   RunState run("exp-42", options, rules, &stats);
//   FORESHOCK_ASSIGN_OR_RETURN(const Admitted admitted, run.Open(hello, stream, now, &changes));
//   run.Add(admitted.attempt, report, now, &changes.batch);
//   run.Settle(now, Budget(), &changes);   // closes what is due
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"
#include "daemon/pipeline/attempt.h"
#include "daemon/pipeline/changes.h"
#include "daemon/pipeline/declared_events.h"
#include "daemon/pipeline/judging.h"
#include "daemon/pipeline/listener.h"
#include "daemon/pipeline/run_alerts.h"
#include "daemon/pipeline/stats.h"
#include "daemon/store/store.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::pipeline {

// Only on the writer's thread.
class RunState {
 public:
  struct Options : Attempt::Options {
    int64_t remember_steps = 2048;  // as Judging says
  };
  // What became of a report.
  struct Taken {
    bool duplicate = false;  // it was committed before
    absl::Status refused{};  // why its statistics are not taken: OutOfRange, ResourceExhausted
  };

  // `store` and `stats` outlive it. Null `store`: attempts never leave memory.
  RunState(std::string run, const Options& options, std::shared_ptr<const rules::RuleSet> rules,
           const store::Store* store, PipelineStats* stats);

  // Reads the run back from the store: attempts, marks, open statistics, alerts, and as much
  // history as the windows need. Returns the alerts that are not resolved.
  absl::StatusOr<std::vector<model::AlertRow>> Load(absl::Time now);

  // A rank says hello. Errors as ReportSink::Open.
  absl::StatusOr<Admitted> Open(const v1::Hello& hello, StreamId stream, absl::Time now,
                                Changes* changes);
  // `room`: whether the daemon has room for more open statistics of this run.
  Taken Add(uint32_t attempt, const model::ShardReport& report, absl::Time now, bool room,
            store::StoreBatch* batch);
  void Goodbye(uint32_t attempt, uint32_t rank, const std::string& client_instance,
               v1::Outcome outcome, store::StoreBatch* batch);
  void StreamEnded(uint32_t attempt, uint32_t rank, StreamId stream);

  // Declared from outside the training process. Returns the attempt that it was added to;
  // FailedPrecondition for a run that has none.
  absl::StatusOr<uint32_t> Declare(const v1::Event& event, absl::Time now,
                                   store::StoreBatch* batch);
  void SetPinned(bool pinned, store::StoreBatch* batch);
  void ReplaceRules(std::shared_ptr<const rules::RuleSet> rules, absl::Time now, Changes* changes);
  RunAlerts& alerts() { return alerts_; }

  // Closes the steps that are due, computes and judges them: one at least, and no more than the
  // budget allows. False: there may be more.
  bool CloseDue(uint32_t attempt, absl::Time now, const Budget& budget, Changes* changes);
  // The same for all attempts. Then computes again what late reports have changed.
  bool Settle(absl::Time now, const Budget& budget, Changes* changes);
  // Lets the rules that need a clock look at it; after Settle.
  void Tick(absl::Time now, Changes* changes);

  // Old attempts for which nobody speaks leave memory, all but their row; a Hello of their launch
  // brings them back. Only while everything is committed.
  void ForgetIdleAttempts();

  std::vector<AttemptStatus> status() const;  // oldest attempt first
  bool connected() const;
  size_t silent_ranks() const;  // of all attempts: no step waits for them
  std::vector<uint32_t> NewestSilentRanks() const;
  size_t ranks_held() const;  // in memory
  size_t open_steps() const;
  size_t open_bytes() const;

 private:
  // The attempt of the hello's launch; null: it is a new launch.
  absl::StatusOr<Attempt*> FindAttempt(const v1::Hello& hello, absl::Time now);
  Attempt& BeginAttempt(const v1::Hello& hello, absl::Time now, Changes* changes);
  // The attempt's row for a launch that begins now.
  model::AttemptRow NextAttempt(const v1::Hello& hello, absl::Time now) const;
  Attempt& newest() { return attempts_.rbegin()->second; }
  bool IsNewest(const Attempt& attempt) const {
    return attempt.number() == attempts_.rbegin()->first;
  }
  bool CloseDue(Attempt* attempt, absl::Time now, const Budget& budget, Changes* changes);
  absl::Status TooFar(const Attempt& attempt, const model::ShardReport& report) const;
  void CloseStep(const merge::SettledStep& step, Attempt* attempt, absl::Time now,
                 Changes* changes);
  void TakeAlerts(std::vector<model::AlertRow> rows, absl::Time now, Changes* changes);

  const std::string run_;
  const Options options_;
  const store::Store* const store_;
  PipelineStats* const stats_;
  model::RunRow row_;
  bool heard_ = false;  // a rank said hello since this process started
  Attempts attempts_;
  Judging judging_;
  RunAlerts alerts_;
  DeclaredEvents events_;
};

}  // namespace foreshock::pipeline
