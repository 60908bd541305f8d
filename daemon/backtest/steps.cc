#include "daemon/backtest/steps.h"

#include <utility>
#include "daemon/base/clock.h"

namespace foreshock::backtest {

void EvaluatingSink::BeginAttempt(const std::string& run, const v1::ModelShape& model,
                                  const rules::AttemptStart& attempt) {
  if (evaluator_ == nullptr) {
    run_ = run;
    evaluator_ = std::make_unique<rules::Evaluator>(rules_, run, model);
  }
  attempt_ = attempt.number;
  evaluator_->BeginAttempt(attempt);
}

void EvaluatingSink::DeclarePlan(uint32_t rank, uint32_t world_size,
                                 absl::Span<const v1::PlanEntry> plan) {
  evaluator_->DeclarePlan(rank, world_size, plan);
}

void EvaluatingSink::RankGone(uint32_t rank) { evaluator_->RankGone(rank); }

void EvaluatingSink::SetSilentRanks(std::vector<uint32_t> ranks) {
  evaluator_->SetSilentRanks(std::move(ranks));
}

void EvaluatingSink::Tick(int64_t now_unix_ns) {
  for (const model::AlertRow& row : evaluator_->Tick({.now_unix_ns = now_unix_ns})) {
    OnAlert(row.alert(), attempt_, step_);
  }
}

void EvaluatingSink::OnStep(const model::ClosedStep& step) {
  const absl::Time start = base::SteadyNow();
  const std::vector<model::AlertRow> rows = evaluator_->Evaluate(step);
  judging_seconds_ += absl::ToDoubleSeconds(base::SteadyNow() - start);
  step_ = step.row.step;
  for (const model::AlertRow& row : rows) OnAlert(row.alert(), attempt_, step_);
  AfterStep(step);
}

}  // namespace foreshock::backtest
