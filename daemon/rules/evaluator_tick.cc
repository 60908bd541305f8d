// Between two steps: what the clock says. And what a step says of the announced plan.

#include <algorithm>
#include <limits>

#include "daemon/rules/evaluator_impl.h"

namespace foreshock::rules {

void Evaluator::Impl::NoteCoverage(const model::ClosedStep& closed,
                                   absl::Span<const model::Finding> findings) {
  const int64_t step = closed.row.step;
  for (const model::Finding& finding : findings) {
    if (finding.kind != model::Finding::Kind::kNonFinite) continue;
    coverage_.Seen(Coverage::FamilyOfFinding(finding.name), finding.layer, step);
  }
  for (const model::Undefined& undefined : closed.undefined) {
    coverage_.Undefined(Coverage::FamilyOf(undefined.indicator), step);
  }
  coverage_.StepClosed(closed.row);
}

std::vector<model::AlertRow> Evaluator::Impl::Tick(const Clock& clock) {
  std::vector<model::AlertRow> rows;
  progress_.Tick(clock.now_unix_ns, clock.life);
  const auto needs_clock = [](const auto& judge) { return judge->NeedsClock(); };
  if (std::none_of(rules_.begin(), rules_.end(), needs_clock)) return rows;
  const bool in_attempt = last_step_ != std::numeric_limits<int64_t>::min();
  const int64_t step = in_attempt ? last_step_ : std::max<int64_t>(progress_.reached(), 0);
  row_.attempt = attempt_;
  row_.step = step;
  const absl::flat_hash_map<int32_t, int64_t> no_windows;
  const StepView view{.row = row_,
                      .findings = {},
                      .step = step,
                      .settled = schedule_.settled(),
                      .model_layers = model_layers_,
                      .plateau = schedule_.plateau(),
                      .tokens = std::nullopt,
                      .window_steps = no_windows,
                      .mean_since = nullptr,
                      .rank_scalars = rank_scalars_,
                      .progress = progress_,
                      .coverage = coverage_,
                      .silent_ranks = silent_ranks_};
  const ClockView at{.life = clock.life, .hindmost = [&clock] {
                       return clock.hindmost == nullptr ? std::vector<uint32_t>()
                                                        : clock.hindmost();
                     }};
  if (primed_) rows = EndPriming(step);
  bool changed = false;
  for (const auto& judge : rules_) {
    if (!judge->NeedsClock() || !judge->Tick(view, at)) continue;
    changed = true;
    if (judge->alert().active) Name(judge->rule().name, &judge->alert());
    rows.push_back(RowOf(step, judge.get()));
  }
  if (changed) JudgeSignatures(step, /*quiet=*/false, &rows);
  return rows;
}

}  // namespace foreshock::rules
