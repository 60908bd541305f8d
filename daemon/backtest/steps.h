// A run as its attempts and closed steps, in the order in which the daemon judged or would have
// judged them, with what else its evaluator is told.
//
//   Backtest backtest(rules);                                         // an EvaluatingSink
//   FORESHOCK_RETURN_IF_ERROR(ReadCaptureSteps("run.fscap", nullptr, &backtest));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "daemon/model/step.h"
#include "daemon/rules/evaluator.h"
#include "daemon/rules/rule_set.h"
#include "foreshock/v1/ingest.pb.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::backtest {

// The calls mean what those of Evaluator mean.
class StepSink {
 public:
  virtual ~StepSink() = default;
  // Steps that follow belong to this attempt. `model` is that of the run.
  virtual void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                            const rules::AttemptStart& attempt) = 0;
  virtual void DeclarePlan(uint32_t rank, uint32_t world_size,
                           absl::Span<const v1::PlanEntry> plan) {}
  virtual void RankGone(uint32_t rank) {}
  virtual void SetSilentRanks(std::vector<uint32_t> ranks) {}
  // The recorded clock, where it has moved on.
  virtual void Tick(int64_t now_unix_ns) {}
  // Steps of an attempt in increasing order.
  virtual void OnStep(const model::ClosedStep& step) = 0;
  // No more steps are wanted: a reader of a store then stops.
  virtual bool done() const { return false; }
  // Of a store: which series are read.
  virtual bool Wants(const model::SeriesKey& series) const { return true; }
};

// Hands everything to an evaluator. Thread-compatible.
class EvaluatingSink : public StepSink {
 public:
  explicit EvaluatingSink(std::shared_ptr<const rules::RuleSet> rules) : rules_(std::move(rules)) {}

  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override;
  void DeclarePlan(uint32_t rank, uint32_t world_size,
                   absl::Span<const v1::PlanEntry> plan) override;
  void RankGone(uint32_t rank) override;
  void SetSilentRanks(std::vector<uint32_t> ranks) override;
  void Tick(int64_t now_unix_ns) override;
  void OnStep(const model::ClosedStep& step) override;

 protected:
  // What the evaluator returned at `step` of the attempt, one by one, then the step itself.
  virtual void OnAlert(const v1::Alert& alert, uint32_t attempt, int64_t step) = 0;
  virtual void AfterStep(const model::ClosedStep& step) = 0;

  const rules::RuleSet& rules() const { return *rules_; }
  const rules::Evaluator& evaluator() const { return *evaluator_; }
  const std::string& run() const { return run_; }
  double judging_seconds() const { return judging_seconds_; }  // of wall clock, in Evaluate

 private:
  const std::shared_ptr<const rules::RuleSet> rules_;
  std::unique_ptr<rules::Evaluator> evaluator_;
  std::string run_;
  uint32_t attempt_ = 0;
  int64_t step_ = 0;
  double judging_seconds_ = 0;
};

// How far a reader has come, of how much (bytes or steps; 0: not known), and the newest step.
using StepProgress = std::function<void(uint64_t done, uint64_t total, int64_t step)>;

}  // namespace foreshock::backtest
