#include "daemon/rules/series_judge.h"

#include <algorithm>
#include <cmath>

#include "daemon/base/archive.h"
#include "daemon/base/order_statistics.h"

namespace foreshock::rules {

std::optional<double> SeriesJudge::Smooth(double value) {
  if (rule_->input.smooth <= 1) return value;
  const size_t n = static_cast<size_t>(rule_->input.smooth);
  recent_.push_back(value);
  if (recent_.size() > n) recent_.erase(recent_.begin());
  if (recent_.size() < n) return std::nullopt;
  return base::Median(recent_);
}

// A baseline of the values, for a detector that may want their logarithms.
std::optional<Baseline> SeriesJudge::InDomain(std::optional<Baseline> baseline) const {
  if (!baseline.has_value()) return std::nullopt;
  const double floor = rule_->baseline.spread_floor * std::abs(baseline->median);
  baseline->spread = std::max(baseline->spread, floor);
  if (!detector_->log()) return baseline;
  if (baseline->median <= 0) return std::nullopt;
  return Baseline{.median = std::log(baseline->median),
                  .spread = baseline->spread / baseline->median};
}

std::optional<Baseline> SeriesJudge::BaselineNow(const std::optional<Baseline>& given) const {
  const BaselineSpec& spec = rule_->baseline;
  switch (spec.kind) {
    case BaselineSpec::Kind::kNone:
      break;
    case BaselineSpec::Kind::kFixed:
      return Baseline{.median = spec.value, .spread = spec.spread_floor * std::abs(spec.value)};
    case BaselineSpec::Kind::kPlateau:
      return given;
    case BaselineSpec::Kind::kReference:
      return InDomain(given);
    case BaselineSpec::Kind::kTrailing:
    case BaselineSpec::Kind::kAnchored:
      if (!frozen_.has_value()) return window_.Get();
      break;
  }
  return frozen_;
}

Transition SeriesJudge::Push(int64_t step, int64_t base_step, double raw,
                             std::optional<Baseline> given) {
  known_ = false;
  const std::optional<double> smoothed = Smooth(raw);
  if (!smoothed.has_value()) return Transition::kNone;
  double value = *smoothed;
  if (detector_->log()) {
    if (value <= 0) return Transition::kNone;
    value = std::log(value);
  }
  const SampleDetector::Sample sample{.step = step,
                                      .base_step = base_step,
                                      .value = value,
                                      .baseline = BaselineNow(given),
                                      .firing = firing()};
  const SampleDetector::Reading reading = detector_->Push(sample);
  breaching_ = reading.judgement.breach;
  measured_ = reading.judgement.measured;
  known_ = measured_.has_value() ||
           (reading.baseline.has_value() && (breaching_ || reading.judgement.clear));
  noise_ = reading.noise;
  if (!noise_.has_value() && sample.baseline.has_value()) noise_ = sample.baseline->spread;
  limit_ = reading.limit;
  value_ = reading.value;
  judged_step_ = step;
  baseline_ = reading.baseline;

  const Phase before = machine_.phase;
  const Transition transition = Advance(rule_->machine, step, reading.judgement, &machine_);
  if (before == Phase::kInactive && machine_.phase != Phase::kInactive) {
    frozen_ = sample.baseline;
    base_step_ = reading.base_step;
  }
  Settle(transition, sample, reading.admit);
  return transition;
}

void SeriesJudge::Settle(Transition transition, const SampleDetector::Sample& sample, bool admit) {
  if (machine_.phase == Phase::kFiring) {
    held_.clear();
    return;
  }
  if (machine_.phase == Phase::kPending) {
    if (admit) held_.push_back({sample.step, sample.value});
    // A condition that stays pending for so long is the new level.
    const size_t held_max = static_cast<size_t>(std::max(rule_->baseline.samples, 64));
    if (held_.size() > held_max) {
      window_.Accept(held_.front().step, held_.front().value);
      held_.erase(held_.begin());
    }
    return;
  }
  if (transition == Transition::kResolved) detector_->Ended();
  // What ended without firing was noise: without it the spread would be too small.
  for (const Held& held : held_) window_.Accept(held.step, held.value);
  held_.clear();
  frozen_.reset();
  if (admit) window_.Accept(sample.step, sample.value);
}

Transition SeriesJudge::PushVerdict(int64_t step, int64_t base_step, bool breach, double value,
                                    std::optional<double> baseline) {
  if (machine_.phase == Phase::kInactive) base_step_ = base_step;
  breaching_ = breach;
  known_ = true;
  if (breach) {
    value_ = value;
    baseline_ = baseline;
  }
  return Advance(rule_->machine, step, {.breach = breach, .clear = !breach}, &machine_);
}

void SeriesJudge::Rebase() {
  if (firing()) return;
  machine_ = MachineState();
  window_.Clear();
  if (detector_ != nullptr) detector_->Rebase();
  frozen_.reset();
  held_.clear();
  breaching_ = false;
}

void SeriesJudge::Accept() {
  machine_ = MachineState();
  Rebase();
}

void SeriesJudge::Resume(int64_t step) {
  window_.DropFrom(step);
  if (detector_ != nullptr) detector_->Resume(step, firing());
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

void SeriesJudge::Overtaken(int64_t step, double value) {
  if (detector_ != nullptr) detector_->Overtaken(step, value);
}

void SeriesJudge::AlertFields(base::Archive* archive) {
  archive->Take(&machine_, &frozen_, &value_, &baseline_, &base_step_);
  if (archive->reading()) held_.clear();
  if (detector_ != nullptr) detector_->AlertFields(archive);
}

void SeriesJudge::HistoryFields(base::Archive* archive) {
  archive->Take(&window_, &held_, &recent_, &judged_step_, &measured_, &noise_, &limit_,
                &breaching_, &known_);
  if (detector_ != nullptr) detector_->HistoryFields(archive);
}

}  // namespace foreshock::rules
