#include "daemon/rules/series_judge.h"

#include <algorithm>
#include <cmath>

#include "daemon/rules/detector.h"

namespace foreshock {

std::optional<double> SeriesJudge::Smooth(const Rule& rule, double value) {
  if (rule.input.smooth <= 1) return value;
  const size_t n = static_cast<size_t>(rule.input.smooth);
  recent_.push_back(value);
  if (recent_.size() > n) recent_.erase(recent_.begin());
  if (recent_.size() < n) return std::nullopt;
  std::vector<double> sorted = recent_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(n / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (n % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(sorted.begin(), middle));
}

Transition SeriesJudge::Push(const Rule& rule, int64_t step, int64_t base_step, double raw,
                             std::optional<double> reference) {
  const std::optional<double> smoothed = Smooth(rule, raw);
  if (!smoothed.has_value()) return Transition::kNone;
  double value = *smoothed;
  const bool logarithm = rule.detector.log;
  if (logarithm) {
    if (value <= 0) return Transition::kNone;
    value = std::log(value);
  }

  std::optional<Baseline> baseline = frozen_;
  switch (rule.baseline.kind) {
    case BaselineSpec::Kind::kNone:
      break;
    case BaselineSpec::Kind::kFixed:
      baseline = Baseline{.median = rule.baseline.value,
                          .spread = rule.baseline.spread_floor * std::abs(rule.baseline.value)};
      break;
    case BaselineSpec::Kind::kPlateau:
      if (reference.has_value()) baseline = Baseline{.median = *reference, .spread = 0};
      break;
    case BaselineSpec::Kind::kTrailing:
    case BaselineSpec::Kind::kAnchored:
      if (!baseline.has_value()) baseline = window_.Get(rule.baseline);
      break;
  }

  const Judgement judgement = Judge(rule.detector, value, baseline);
  breaching_ = judgement.breach;
  measured_ = judgement.measured;
  value_ = *smoothed;
  judged_step_ = step;
  baseline_.reset();
  if (baseline.has_value()) baseline_ = logarithm ? std::exp(baseline->median) : baseline->median;

  const Phase before = machine_.phase;
  const Transition transition = Advance(rule.machine, step, judgement, &machine_);
  if (before == Phase::kInactive && machine_.phase != Phase::kInactive) {
    frozen_ = baseline;
    base_step_ = base_step;
  }
  Settle(rule, transition, step, value);
  return transition;
}

void SeriesJudge::Settle(const Rule& rule, Transition transition, int64_t step, double value) {
  if (machine_.phase == Phase::kFiring) {
    held_.clear();
    return;
  }
  if (machine_.phase == Phase::kPending) {
    held_.push_back({step, value});
    // A condition that stays pending for so long is the new level.
    const size_t held_max = static_cast<size_t>(std::max(rule.baseline.samples, 64));
    if (held_.size() > held_max) {
      window_.Accept(rule.baseline, held_.front().step, held_.front().value);
      held_.erase(held_.begin());
    }
    return;
  }
  if (transition == Transition::kReleased) window_.Clear();
  // What ended without firing was noise: without it the spread would be too small.
  for (const Held& held : held_) window_.Accept(rule.baseline, held.step, held.value);
  held_.clear();
  frozen_.reset();
  window_.Accept(rule.baseline, step, value);
}

Transition SeriesJudge::PushVerdict(const Rule& rule, int64_t step, int64_t base_step, bool breach,
                                    double value, std::optional<double> baseline) {
  if (machine_.phase == Phase::kInactive) base_step_ = base_step;
  breaching_ = breach;
  if (breach) {
    value_ = value;
    baseline_ = baseline;
  }
  return Advance(rule.machine, step, {.breach = breach, .clear = !breach}, &machine_);
}

void SeriesJudge::Rebase() {
  if (firing()) return;
  machine_ = MachineState();
  window_.Clear();
  frozen_.reset();
  held_.clear();
  breaching_ = false;
}

void SeriesJudge::Resume(const Rule& rule, int64_t step) {
  window_.DropFrom(rule.baseline, step);
  recent_.clear();
  held_.clear();
  breaching_ = false;
  machine_.clear_run = 0;
  // Of the steps that run again nothing has been seen yet: keep_firing_for counts from here.
  machine_.last_breach_step = std::min(machine_.last_breach_step, step);
  if (firing()) return;
  machine_ = MachineState();
  frozen_.reset();
}

void SeriesJudge::Save(rules::SeriesState* state) const {
  state->set_phase(static_cast<uint32_t>(machine_.phase));
  state->set_hits(machine_.hits);
  state->set_pending_step(machine_.pending_step);
  state->set_firing_step(machine_.firing_step);
  state->set_last_breach_step(machine_.last_breach_step);
  state->set_pending_samples(machine_.pending_samples);
  state->set_samples_since_breach(machine_.samples_since_breach);
  state->set_clear_run(machine_.clear_run);
  state->set_firing_samples(machine_.firing_samples);
  if (frozen_.has_value()) {
    state->set_frozen_median(frozen_->median);
    state->set_frozen_spread(frozen_->spread);
  }
  state->set_value(value_);
  if (baseline_.has_value()) state->set_baseline(*baseline_);
  state->set_base_step(base_step_);
}

void SeriesJudge::Restore(const rules::SeriesState& state) {
  machine_.phase = state.phase() == 2 ? Phase::kFiring : Phase::kInactive;
  machine_.hits = state.hits();
  machine_.pending_step = state.pending_step();
  machine_.firing_step = state.firing_step();
  machine_.last_breach_step = state.last_breach_step();
  machine_.pending_samples = state.pending_samples();
  machine_.samples_since_breach = state.samples_since_breach();
  machine_.clear_run = state.clear_run();
  machine_.firing_samples = state.firing_samples();
  frozen_.reset();
  if (state.has_frozen_median()) {
    frozen_ = Baseline{.median = state.frozen_median(), .spread = state.frozen_spread()};
  }
  value_ = state.value();
  baseline_.reset();
  if (state.has_baseline()) baseline_ = state.baseline();
  base_step_ = state.base_step();
  held_.clear();
}

}  // namespace foreshock
