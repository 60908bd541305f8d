// Judges the steps of one run by a rule set and keeps what came of it: every alert from firing to
// its end, and where the loss broke.
//
//   Backtest backtest(rules);
//   FORESHOCK_RETURN_IF_ERROR(ReadCaptureSteps("run.fscap", nullptr, &backtest));
//   const RunResult result = backtest.Finish();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/backtest/steps.h"
#include "daemon/rules/evaluator.h"
#include "daemon/rules/loss_break.h"
#include "daemon/rules/rule_set.h"

namespace foreshock::backtest {

// One alert of a rule or signature.
struct AlertSpan {
  // A moment of the run: steps repeat after a resume, so they do not order by themselves.
  struct Moment {
    int64_t step = 0;
    uint64_t order = 0;  // grows with every alert that the evaluator returned
  };
  v1::Alert first;  // as it fired
  v1::Alert last;   // as it ended, or is at the end of the run
  Moment fired;
  std::optional<Moment> warning;   // since when it is at least a warning
  std::optional<Moment> critical;  // since when it is critical
  std::string severity;            // the gravest it reached
};

struct RunResult {
  std::string run;             // as the ranks named it
  uint32_t attempts = 0;       // begun
  std::vector<int64_t> steps;  // judged, in their order; they go back where an attempt resumed
  uint64_t samples = 0;        // judged: series times the steps at which they had a value
  bool has_loss = false;       // train.loss was seen
  std::optional<int64_t> loss_break_step;  // of the newest attempt's values (loss_break.h)
  std::vector<AlertSpan> alerts;           // in the order in which they fired
  double judging_seconds = 0;              // spent in the evaluator
  std::vector<v1::RuleJudging> judging;    // of each rule, how far it judged the run
  v1::Judged judged;                       // of all that judge series

  // Judged steps before `step`.
  uint64_t StepsBefore(int64_t step) const;
};

// The curves of a run, for a plot.
struct RunTrace {
  struct Point {
    int64_t step = 0;
    double value = 0;
    std::optional<double> baseline{};
    std::optional<double> limit{};
  };
  struct Curve {
    std::string rule;
    std::string measure;        // what it looks at: "attn.delta2.relative_norm / train.lr"
    std::string series;         // "layer 2", "layer 0, head 1"; "" for the whole run
    std::vector<Point> points;  // in the order of the steps; a resume goes back
  };
  std::vector<rules::LossSample> losses;  // in the order of the steps
  std::vector<Curve> curves;              // of the rules asked for, in their order
};

// Thread-compatible.
class Backtest final : public EvaluatingSink {
 public:
  // Also traces what the rules named make of their series; `trace_rules` must be rules of the set.
  explicit Backtest(std::shared_ptr<const rules::RuleSet> rules,
                    std::vector<std::string> trace_rules = {});

  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override;

  // Whether the rules look at the series; after BeginAttempt.
  bool Uses(const model::SeriesKey& series) const { return evaluator().Uses(series); }

  // As Evaluator::Judging and Explain; after BeginAttempt.
  std::vector<v1::RuleJudging> Judging() const { return evaluator().Judging(); }
  bool Explain(const std::string& rule, v1::ExplainResponse* out) const {
    return evaluator().Explain(rule, out);
  }

  // After the last step.
  RunResult Finish();
  RunTrace TakeTrace() { return std::move(trace_); }

 private:
  void OnAlert(const v1::Alert& alert, uint32_t attempt, int64_t step) override;
  void AfterStep(const model::ClosedStep& step) override;
  void NoteLoss(const model::ClosedStep& step);
  void NoteTrace(int64_t step);

  const std::vector<std::string> trace_rules_;
  RunResult result_;
  uint64_t order_ = 0;
  absl::flat_hash_map<std::string, size_t> open_;  // alert id to its place in result_.alerts
  std::map<int64_t, double> losses_;               // newest value of a step
  absl::flat_hash_map<std::string, size_t> curve_of_;
  RunTrace trace_;
};

// What a reader of the result must know to trust it: no loss, rules that judged nothing although
// their series came, steps missing.
std::vector<std::string> Notes(const RunResult& result);

// "layer 2, head 1"; "" for neither.
std::string SeriesPlace(int32_t layer, model::Unit unit, int64_t unit_id,
                        const std::string& unit_name);

}  // namespace foreshock::backtest
