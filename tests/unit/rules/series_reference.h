// SeriesJudge once more, slow and obvious: it keeps lists of samples and works everything out anew
// from them. For rules whose baseline is trailing, anchored or fixed.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "daemon/rules/rule.h"
#include "tests/unit/rules/state_machine_reference.h"

namespace foreshock::rules {

class ReferenceSeries {
 public:
  explicit ReferenceSeries(const Rule& rule) : rule_(rule), machine_(rule.machine) {}

  Transition Push(int64_t step, int64_t base_step, double raw) {
    raw_.push_back(raw);
    const size_t smooth = static_cast<size_t>(rule_.input.smooth);
    if (raw_.size() < smooth) return Transition::kNone;
    double value = Median({raw_.end() - static_cast<std::ptrdiff_t>(smooth), raw_.end()});
    if (Log() && value <= 0) return Transition::kNone;
    if (Log()) value = std::log(value);

    const Sample sample{step, base_step, value};
    const std::optional<Baseline> baseline = frozen_.has_value() ? frozen_ : Compute();
    const bool was_firing = machine_.phase() == Phase::kFiring;
    const Reading reading = Read(sample, baseline, was_firing);
    value_ = reading.value;
    baseline_ = reading.baseline;

    const Phase before = machine_.phase();
    const Transition transition = machine_.Push(step, {reading.breach, reading.clear});
    const Phase after = machine_.phase();
    if (before == Phase::kInactive && after != Phase::kInactive) {
      frozen_ = baseline;
      base_step_ = reading.base_step;
    }
    if (after == Phase::kFiring) {
      held_.clear();
      return transition;
    }
    if (after == Phase::kPending) {
      if (reading.admit) held_.push_back(sample);
      if (held_.size() > static_cast<size_t>(std::max(rule_.baseline.samples, 64))) {
        Accept(held_.front());
        held_.erase(held_.begin());
      }
      return transition;
    }
    if (transition == Transition::kResolved) zs_.clear();
    for (const Sample& held : held_) Accept(held);
    held_.clear();
    frozen_.reset();
    if (reading.admit) Accept(sample);
    return transition;
  }

  void Rebase() {
    if (phase() == Phase::kFiring) return;
    machine_ = ReferenceMachine(rule_.machine);
    accepted_.clear();
    frozen_.reset();
    held_.clear();
    kept_.clear();
    zs_.clear();
    before_.clear();
  }

  void Resume(int64_t step) {
    DropFrom(step, &accepted_);
    DropFrom(step, &kept_);
    raw_.clear();
    held_.clear();
    ResumeContinuity(step);
    if (phase() == Phase::kFiring) {
      machine_.Resume(step);
      return;
    }
    zs_.clear();
    frozen_.reset();
    machine_ = ReferenceMachine(rule_.machine);
  }

  Phase phase() const { return machine_.phase(); }
  double value() const { return value_; }
  std::optional<double> baseline() const { return baseline_; }
  int64_t base_step() const { return base_step_; }

 private:
  struct Sample {
    int64_t step = 0;
    int64_t base_step = 0;
    double value = 0;
    bool spike = false;
  };
  struct Reading {
    bool breach = false;
    bool clear = false;
    double value = 0;
    std::optional<double> baseline = {};
    int64_t base_step = 0;
    bool admit = true;
  };

  static double Median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return n % 2 == 1 ? values[n / 2] : 0.5 * values[n / 2 - 1] + 0.5 * values[n / 2];
  }
  static void DropFrom(int64_t step, std::vector<Sample>* samples) {
    while (!samples->empty() && samples->back().step >= step) samples->pop_back();
  }
  static std::vector<Sample> Newest(const std::vector<Sample>& samples, int count) {
    const size_t n = std::min(samples.size(), static_cast<size_t>(count));
    return {samples.end() - static_cast<std::ptrdiff_t>(n), samples.end()};
  }

  // ---- the baseline ----

  void Accept(const Sample& sample) {
    const BaselineSpec& spec = rule_.baseline;
    const size_t n = static_cast<size_t>(spec.samples);
    if (spec.kind == BaselineSpec::Kind::kAnchored && accepted_.size() >= n) return;
    accepted_.push_back(sample);
    // The memory for resumes has an end.
    const size_t needed = 2 * (n + static_cast<size_t>(spec.lag) - 1);
    if (spec.kind == BaselineSpec::Kind::kTrailing && accepted_.size() >= needed + needed / 2) {
      accepted_.erase(accepted_.begin(), accepted_.end() - static_cast<std::ptrdiff_t>(needed));
    }
  }

  std::optional<Baseline> Compute() const {
    const BaselineSpec& spec = rule_.baseline;
    if (spec.kind == BaselineSpec::Kind::kNone) return std::nullopt;
    if (spec.kind == BaselineSpec::Kind::kFixed) {
      return Baseline{spec.value, spec.spread_floor * std::abs(spec.value)};
    }
    std::vector<Sample> window = accepted_;
    if (spec.kind == BaselineSpec::Kind::kTrailing) {
      for (int i = 1; i < spec.lag && !window.empty(); ++i) window.pop_back();
      window = Newest(window, spec.samples);
    }
    if (window.size() < static_cast<size_t>(spec.min_samples)) return std::nullopt;
    std::vector<double> values;
    for (const Sample& sample : window) values.push_back(sample.value);
    const double median = Median(values);
    for (double& value : values) value = std::abs(value - median);
    return Baseline{median,
                    std::max(1.4826 * Median(values), spec.spread_floor * std::abs(median))};
  }

  // ---- the detectors ----

  Reading Read(const Sample& sample, const std::optional<Baseline>& baseline, bool firing) {
    const Detector& detector = rule_.detector;
    if (const auto* z = std::get_if<RobustZSpec>(&detector)) return RobustZ(*z, sample, baseline);
    if (const auto* cusum = std::get_if<CusumSpec>(&detector)) {
      return Cusum(*cusum, sample, baseline);
    }
    if (const auto* shift = std::get_if<LevelShiftSpec>(&detector)) {
      return LevelShift(*shift, sample, baseline);
    }
    if (const auto* slope = std::get_if<SlopeSpec>(&detector)) return Slope(*slope, sample, firing);
    if (const auto* spikes = std::get_if<SpikeBudgetSpec>(&detector)) {
      return SpikeBudget(*spikes, sample, baseline);
    }
    return Continuity(std::get<ContinuitySpec>(detector), sample, baseline);
  }

  static double Z(double value, const Baseline& baseline) {
    if (value == baseline.median) return 0;
    return (value - baseline.median) / baseline.spread;
  }
  static bool Beyond(Side side, double limit, double x) {
    if (side == Side::kAbove) return x > limit;
    if (side == Side::kBelow) return x < limit;
    return x > limit || x < -limit;
  }
  static void Against(const Limits& limits, double x, Reading* reading) {
    reading->breach = Beyond(limits.side, limits.limit, x);
    reading->clear = !Beyond(limits.side, limits.clear, x);
  }
  bool Log() const {
    return std::visit(
        [](const auto& spec) {
          if constexpr (requires { spec.log; }) return spec.log;
          return false;
        },
        rule_.detector);
  }
  double Linear(double x) const { return Log() ? std::exp(x) : x; }

  Reading RobustZ(const RobustZSpec& spec, const Sample& sample,
                  const std::optional<Baseline>& baseline) const {
    Reading reading{.value = Linear(sample.value), .base_step = sample.base_step};
    if (!baseline.has_value()) return reading;
    reading.baseline = Linear(baseline->median);
    Against(spec.limits, Z(sample.value, *baseline), &reading);
    return reading;
  }

  Reading Cusum(const CusumSpec& spec, const Sample& sample,
                const std::optional<Baseline>& baseline) {
    Reading reading{.value = Linear(sample.value), .base_step = sample.base_step};
    if (!baseline.has_value()) return reading;
    reading.baseline = Linear(baseline->median);
    zs_.push_back({sample.step, sample.base_step, Z(sample.value, *baseline)});
    const double limit = std::abs(spec.limits.limit);
    double sums[2] = {0, 0};
    int64_t bases[2] = {0, 0};
    for (const Sample& z : zs_) {
      for (int side = 0; side < 2; ++side) {
        if (sums[side] == 0) bases[side] = z.base_step;
        const double off = side == 0 ? z.value : -z.value;
        sums[side] += std::min(off, limit / 2) - spec.slack;
        sums[side] = std::min(std::max(sums[side], 0.0), 2 * limit);
      }
    }
    int side = spec.limits.side == Side::kBelow ? 1 : 0;
    if (spec.limits.side == Side::kOutside && sums[1] > sums[0]) side = 1;
    Against(spec.limits, side == 0 ? sums[0] : -sums[1], &reading);
    reading.base_step = bases[side];
    return reading;
  }

  // Twice the window, for resumes.
  void Keep(const Sample& sample, int samples) {
    kept_.push_back(sample);
    kept_ = Newest(kept_, 2 * samples);
  }

  Reading LevelShift(const LevelShiftSpec& spec, const Sample& sample,
                     const std::optional<Baseline>& baseline) {
    Keep(sample, spec.samples);
    Reading reading{.value = Linear(sample.value), .base_step = sample.base_step};
    const std::vector<Sample> newest = Newest(kept_, spec.samples);
    if (newest.size() < static_cast<size_t>(spec.samples) || !baseline.has_value()) {
      return reading;
    }
    std::vector<double> values;
    for (const Sample& one : newest) values.push_back(one.value);
    reading.value = Linear(Median(values));
    reading.baseline = Linear(baseline->median);
    reading.base_step = newest.front().base_step;
    Against(spec.limits, Z(Median(values), *baseline), &reading);
    return reading;
  }

  Reading Slope(const SlopeSpec& spec, const Sample& sample, bool firing) {
    Keep(sample, spec.samples);
    const std::vector<Sample> newest = Newest(kept_, spec.samples);
    Reading reading{.value = sample.value, .base_step = newest.front().base_step};
    const double n = static_cast<double>(newest.size());
    if (newest.size() < static_cast<size_t>(spec.min_samples)) return reading;
    std::vector<double> slopes;
    std::map<double, double> equal;
    double rising = 0;
    double falling = 0;
    for (const Sample& later : newest) {
      ++equal[later.value];
      for (const Sample& earlier : newest) {
        if (earlier.step >= later.step) continue;
        if (later.value > earlier.value) ++rising;
        if (later.value < earlier.value) ++falling;
        slopes.push_back((later.value - earlier.value) /
                         static_cast<double>(later.step - earlier.step));
      }
    }
    double variance = n * (n - 1) * (2 * n + 5);
    for (const auto& [value, t] : equal) variance -= t * (t - 1) * (2 * t + 5);
    variance /= 18;
    double z = 0;
    if (variance > 0 && rising > falling) z = (rising - falling - 1) / std::sqrt(variance);
    if (variance > 0 && rising < falling) z = (rising - falling + 1) / std::sqrt(variance);
    const bool trend = std::abs(z) >= spec.min_z;
    const double slope = trend || firing ? Median(slopes) : 0;
    if (!spec.will_cross) {
      reading.value = slope * spec.per_steps;
      Against(spec.limits, reading.value, &reading);
      reading.breach = reading.breach && trend;
      return reading;
    }
    std::vector<double> levels;
    for (const Sample& one : newest) {
      levels.push_back(one.value + slope * static_cast<double>(sample.step - one.step));
    }
    const double now = Median(levels);
    const double then = now + slope * static_cast<double>(spec.ahead_steps);
    reading.value = spec.limits.side == Side::kAbove ? std::max(now, then) : std::min(now, then);
    Against(spec.limits, reading.value, &reading);
    if (!trend) reading.breach = Beyond(spec.limits.side, spec.limits.limit, now);
    return reading;
  }

  Reading SpikeBudget(const SpikeBudgetSpec& spec, Sample sample,
                      const std::optional<Baseline>& baseline) {
    Reading reading{.base_step = sample.base_step};
    if (baseline.has_value()) {
      sample.spike = Beyond(spec.spike.side, spec.spike.limit, Z(sample.value, *baseline));
      Keep(sample, spec.samples);
    }
    int spikes = 0;
    int64_t first = sample.base_step;
    for (const Sample& one : Newest(kept_, spec.samples)) {
      if (one.spike && spikes++ == 0) first = one.base_step;
    }
    reading.value = static_cast<double>(spikes) / spec.samples;
    if (!baseline.has_value()) return reading;
    Against(spec.share, reading.value, &reading);
    if (reading.breach) reading.base_step = first;
    reading.admit = !sample.spike;
    return reading;
  }

  Reading Continuity(const ContinuitySpec& spec, const Sample& sample,
                     const std::optional<Baseline>& baseline) {
    Reading reading{.value = sample.value, .base_step = sample.base_step};
    ++attempt_samples_;
    const bool ended = spec.within.in_samples ? attempt_samples_ > spec.within.count
                                              : sample.step - resume_step_ > spec.within.count;
    if (ended) before_.clear();
    const bool nothing_left = before_.empty() || before_.back().step <= compared_step_;
    std::optional<Sample> nearest;
    int64_t interval = 1;
    for (size_t i = 0; i < before_.size(); ++i) {
      if (before_[i].step > sample.step || before_[i].step <= compared_step_) continue;
      nearest = before_[i];
      if (i > 0) interval = before_[i].step - before_[i - 1].step;
      if (i == 0 && !lineage_at_resume_.empty()) {
        interval = before_[i].step - lineage_at_resume_.back().step;
      }
      if (i + 1 < before_.size()) interval = before_[i + 1].step - before_[i].step;
    }
    compared_step_ = sample.step;
    lineage_.push_back(sample);
    lineage_ = Newest(lineage_, spec.samples);
    reading.clear = nothing_left;
    if (!nearest.has_value() || sample.step - nearest->step >= interval) return reading;
    reading.baseline = nearest->value;
    const double distance = std::abs(sample.value - nearest->value);
    const double scale = std::abs(nearest->value);
    reading.clear = distance <= spec.clear * scale;
    reading.breach = distance > spec.outside * scale;
    if (spec.min_z > 0 && !baseline.has_value()) reading.breach = false;
    if (baseline.has_value() && distance < spec.min_z * baseline->spread) {
      reading.breach = false;
    }
    return reading;
  }

  void ResumeContinuity(int64_t step) {
    std::vector<Sample> before;
    int64_t reached = step - 1;
    for (const Sample& sample : lineage_) {
      reached = sample.step;
      if (sample.step >= step) before.push_back(sample);
    }
    for (const Sample& sample : before_) {
      if (sample.step > reached) before.push_back(sample);
    }
    before_ = before;
    DropFrom(step, &lineage_);
    lineage_at_resume_ = lineage_;
    resume_step_ = step;
    compared_step_ = std::numeric_limits<int64_t>::min();
    attempt_samples_ = 0;
  }

  const Rule& rule_;
  ReferenceMachine machine_;
  std::vector<double> raw_;       // of the attempt
  std::vector<Sample> accepted_;  // of the regime
  std::vector<Sample> held_;
  std::optional<Baseline> frozen_;
  std::vector<Sample> kept_;  // of the regime: level_shift, slope, spike_budget
  std::vector<Sample> zs_;    // since the sums were zero: cusum
  std::vector<Sample> lineage_, before_, lineage_at_resume_;  // continuity
  int64_t resume_step_ = 0;
  int64_t compared_step_ = std::numeric_limits<int64_t>::min();
  int64_t attempt_samples_ = 0;
  double value_ = 0;
  std::optional<double> baseline_;
  int64_t base_step_ = 0;
};

}  // namespace foreshock::rules
