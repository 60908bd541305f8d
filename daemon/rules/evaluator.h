// Judges the closed steps of one run by a rule set. No clock, no I/O: the step is the time; the
// clock comes in by Tick.
//
//   Evaluator evaluator(rules, "exp-42", model_shape);
//   evaluator.BeginAttempt({.number = 1});
//   for (const ClosedStep& step : steps)
//     for (const model::AlertRow& row : evaluator.Evaluate(step)) Show(row.alert());
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/step.h"
#include "daemon/rules/progress.h"
#include "daemon/rules/rule_set.h"
#include "foreshock/v1/ingest.pb.h"
#include "foreshock/v1/query.pb.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::rules {

struct AttemptStart {
  uint32_t number = 1;
  std::optional<int64_t> resume_step{};  // windows are reset; baselines of the parent attempt are
                                         // kept up to this step
  // The furthest step that closed in any attempt before; unset: that was evaluated or primed.
  std::optional<int64_t> reached{};
  // Of the model, 0: unknown; unset: as before.
  std::optional<uint32_t> model_layers{};
};

// What a rule made of one of its series at a step.
struct JudgedSeries {
  int32_t layer = model::kNoLayer;
  model::Unit unit = model::Unit::kNone;
  int64_t unit_id = 0;
  std::string unit_name;
  double value = 0;                // as judged: smoothed, divided, aggregated
  std::optional<double> baseline;  // it was compared with
  std::optional<double> limit;     // of a breach, in the unit of the value, where it is one number
  std::optional<double> measured;  // what was compared with the rule's limit: ratio, z, value
  bool breaching = false;
  bool firing = false;
};

// Thread-compatible. Equal inputs give equal outputs, in equal order.
class Evaluator {
 public:
  Evaluator(std::shared_ptr<const RuleSet> rules, std::string run, const v1::ModelShape& model);
  ~Evaluator();

  void BeginAttempt(const AttemptStart& attempt);

  // Steps of the attempt in increasing order; a step at or before the last one is ignored (late
  // data are stored, not judged again). Returns the alerts whose state or evidence changed, in the
  // order in which they changed: from firing on, again when severity, layers, ranks or evidence
  // change, and once when they resolve. What is only pending is not returned.
  std::vector<model::AlertRow> Evaluate(const model::ClosedStep& step);

  // What a rank of the attempt has announced in its Hello; after BeginAttempt, before the steps,
  // and again when it says Hello again. Coverage is judged by it.
  void DeclarePlan(uint32_t rank, uint32_t world_size, absl::Span<const v1::PlanEntry> plan);
  // The rank said goodbye: nothing more is expected of it.
  void RankGone(uint32_t rank);
  // Ranks that no step waits for any more, to be named when a step lacks ranks.
  void SetSilentRanks(std::vector<uint32_t> ranks);

  // A clock that nobody sets, for the detectors that need it (hang, restarts): as often as one
  // likes, between steps. Returns as Evaluate. Alerts that begin here stand at the newest closed
  // step.
  struct Clock {
    int64_t now_unix_ns = 0;
    Life life = Life::kLive;
    // Ranks whose newest report is the oldest; may be unset.
    std::function<std::vector<uint32_t>()> hindmost{};
  };
  std::vector<model::AlertRow> Tick(const Clock& clock);

  // After a restart, in this order: RecallReplaced and Recall where there is something to recall,
  // Prime with the stored steps of the lineage that came after it, PrimeOvertaken, and Restore with
  // every stored alert that is not resolved. After that Evaluate goes on as if there had been no
  // restart, and returns no alert again that was returned before.

  // All that was made of the steps up to now, as bytes, between two steps.
  std::string Remember();
  // Takes what another evaluator remembered of the same rules, into one that has seen nothing.
  // False, and nothing is changed: the bytes are of another program's form, or know no rule.
  // DeclarePlan and RankGone of the attempt that was judged last come next.
  bool Recall(absl::string_view memory);
  // Whether there are rules that the memory did not know and that were in force before it. They are
  // taken from an evaluator that was primed with the whole run.
  bool LacksRules() const;
  void TakeLackedRules(Evaluator* primed);

  // A stored step: fills windows, baselines and clocks, but changes no alert.
  void Prime(const model::ClosedStep& step);
  // A stored step of an earlier attempt that the newest one has begun after but has yet to reach,
  // in increasing order. It is no past; it is what a value after the resume is compared with.
  void PrimeOvertaken(const model::ClosedStep& step);
  // An alert whose rule is gone, or whose state is not readable (DataLoss), is returned as resolved
  // by the next Evaluate.
  absl::Status Restore(const model::AlertRow& row);

  // The rules were reloaded: states of alerts whose rule did not change are carried over.
  std::vector<model::AlertRow> ReplaceRules(std::shared_ptr<const RuleSet> rules);
  // Which rules came into force by it, and behind which step, as bytes. They are kept beside the
  // memory until a newer memory is: a rule that was reloaded sees no step before.
  std::string Replaced() const;
  void RecallReplaced(absl::string_view replaced);
  void ForgetReplaced();

  // Whether Prime uses this series; of the others it needs no points.
  bool Uses(const model::SeriesKey& series) const;

  // How far each rule has judged the run, in the order of the set; signatures judge alerts.
  std::vector<v1::RuleJudging> Judging() const;
  // The same of all rules that judge series.
  v1::Judged JudgedSoFar() const;
  // What the rule or signature of that name compared at the newest step, and what it lacks to fire.
  // False: there is none.
  bool Explain(absl::string_view name, v1::ExplainResponse* out) const;

  // The series that the rule of that name judged at the newest step; none for a signature.
  std::vector<JudgedSeries> Judged(absl::string_view rule) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace foreshock::rules
