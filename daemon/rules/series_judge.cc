#include "daemon/rules/series_judge.h"

#include <algorithm>
#include <cmath>

#include "daemon/base/order_statistics.h"
#include "daemon/rules/detector.h"

namespace foreshock {

std::optional<double> SeriesJudge::Smooth(const Rule& rule, double value) {
  if (rule.input.smooth <= 1) return value;
  const size_t n = static_cast<size_t>(rule.input.smooth);
  recent_.push_back(value);
  if (recent_.size() > n) recent_.erase(recent_.begin());
  if (recent_.size() < n) return std::nullopt;
  return Median(recent_);
}

namespace {

// A baseline of the values, for a detector that may want their logarithms.
std::optional<Baseline> InDomain(const Rule& rule, std::optional<Baseline> baseline) {
  if (!baseline.has_value()) return std::nullopt;
  const double floor = rule.baseline.spread_floor * std::abs(baseline->median);
  baseline->spread = std::max(baseline->spread, floor);
  if (!rule.detector.log) return baseline;
  if (baseline->median <= 0) return std::nullopt;
  return Baseline{.median = std::log(baseline->median),
                  .spread = baseline->spread / baseline->median};
}

}  // namespace

Transition SeriesJudge::Push(const Rule& rule, int64_t step, int64_t base_step, double raw,
                             std::optional<Baseline> given) {
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
      baseline = given;
      break;
    case BaselineSpec::Kind::kReference:
      baseline = InDomain(rule, given);
      break;
    case BaselineSpec::Kind::kTrailing:
    case BaselineSpec::Kind::kAnchored:
      if (!baseline.has_value()) baseline = window_.Get(rule.baseline);
      break;
  }

  const Course::Sample sample{.step = step,
                              .base_step = base_step,
                              .value = value,
                              .baseline = baseline,
                              .firing = firing()};
  const Course::Reading reading = Read(rule, sample);
  breaching_ = reading.judgement.breach;
  measured_ = reading.judgement.measured;
  value_ = reading.value;
  judged_step_ = step;
  baseline_ = reading.baseline;

  const Phase before = machine_.phase;
  const Transition transition = Advance(rule.machine, step, reading.judgement, &machine_);
  if (before == Phase::kInactive && machine_.phase != Phase::kInactive) {
    frozen_ = baseline;
    base_step_ = reading.base_step;
  }
  Settle(rule, transition, sample, reading.admit);
  return transition;
}

Course::Reading SeriesJudge::Read(const Rule& rule, const Course::Sample& sample) {
  if (course_ == nullptr) course_ = NewCourse(rule.detector);
  if (course_ != nullptr) return course_->Push(rule.detector, sample);
  Course::Reading reading{.judgement = Judge(rule.detector, sample.value, sample.baseline),
                          .value = Shown(rule.detector, sample.value),
                          .base_step = sample.base_step};
  if (sample.baseline.has_value()) {
    reading.baseline = Shown(rule.detector, sample.baseline->median);
  }
  return reading;
}

void SeriesJudge::Settle(const Rule& rule, Transition transition, const Course::Sample& sample,
                         bool admit) {
  if (machine_.phase == Phase::kFiring) {
    held_.clear();
    return;
  }
  if (machine_.phase == Phase::kPending) {
    if (admit) held_.push_back({sample.step, sample.value});
    // A condition that stays pending for so long is the new level.
    const size_t held_max = static_cast<size_t>(std::max(rule.baseline.samples, 64));
    if (held_.size() > held_max) {
      window_.Accept(rule.baseline, held_.front().step, held_.front().value);
      held_.erase(held_.begin());
    }
    return;
  }
  if (transition == Transition::kReleased) window_.Clear();
  const bool ended = transition == Transition::kResolved || transition == Transition::kReleased;
  if (ended && course_ != nullptr) course_->Ended(transition == Transition::kReleased);
  // What ended without firing was noise: without it the spread would be too small.
  for (const Held& held : held_) window_.Accept(rule.baseline, held.step, held.value);
  held_.clear();
  frozen_.reset();
  if (admit) window_.Accept(rule.baseline, sample.step, sample.value);
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
  if (course_ != nullptr) course_->Rebase();
  frozen_.reset();
  held_.clear();
  breaching_ = false;
}

void SeriesJudge::Resume(const Rule& rule, int64_t step) {
  window_.DropFrom(rule.baseline, step);
  if (course_ != nullptr) course_->Resume(step, firing());
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

void SeriesJudge::Overtaken(const Rule& rule, int64_t step, double value) {
  if (course_ == nullptr) course_ = NewCourse(rule.detector);
  if (course_ != nullptr) course_->Overtaken(step, value);
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
  if (course_ != nullptr) course_->Save(state);
}

void SeriesJudge::Restore(const Rule& rule, const rules::SeriesState& state) {
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
  if (course_ == nullptr) course_ = NewCourse(rule.detector);
  if (course_ != nullptr) course_->Restore(state);
}

void SeriesJudge::Fields(const Rule& rule, Archive* archive) {
  bool has_course = course_ != nullptr;
  archive->Take(&has_course);
  if (archive->reading()) course_ = has_course ? NewCourse(rule.detector) : nullptr;
  if (course_ != nullptr) course_->Fields(archive);
  archive->Take(&machine_, &window_, &frozen_, &held_, &recent_, &value_, &judged_step_, &measured_,
                &baseline_, &base_step_, &breaching_);
}

}  // namespace foreshock
