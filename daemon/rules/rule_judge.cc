#include "daemon/rules/rule_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "daemon/base/order_statistics.h"

namespace foreshock {

size_t RuleJudge::FindOrAdd(const Rule& rule, const SeriesKey& key) {
  const auto [found, added] = by_key_.try_emplace(key, subjects_.size());
  if (added) {
    Subject subject;
    subject.layer = key.layer;
    subject.unit = key.unit;
    subject.unit_id = key.unit_id;
    subject.unit_name = key.unit_name;
    if (rule.baseline.band != nullptr) {
      SeriesKey series = key;
      series.indicator = rule.input.indicators[0];
      subject.curve = rule.baseline.band->Find(rule.input.aggregate, series);
    }
    const auto same_layer = [&key](const Subject& other) { return other.layer == key.layer; };
    if (key.layer >= 0 && std::none_of(subjects_.begin(), subjects_.end(), same_layer)) {
      ++layers_known_;
    }
    subjects_.push_back(std::move(subject));
  }
  return found->second;
}

size_t RuleJudge::SubjectOf(const Rule& rule, const SeriesKey& series) {
  const bool of_rank = series.unit == Unit::kRank;
  if (rule.input.scope == (of_rank ? Input::Scope::kRun : Input::Scope::kRank)) return kNotFed;
  SeriesKey key = series;
  key.indicator.clear();
  if (rule.input.combine != Input::Combine::kNone) {
    if (series.layer != kNoLayer || series.unit != Unit::kNone) return kNotFed;
  } else if (rule.input.aggregate != Input::Aggregate::kEach) {
    key.unit = Unit::kNone;
    key.unit_id = 0;
    key.unit_name.clear();
  }
  return FindOrAdd(rule, key);
}

void RuleJudge::Feed(const Rule& rule, size_t index, size_t component, double value,
                     uint32_t flags) {
  Subject& subject = subjects_[index];
  subject.flags |= flags & kFlagRebaseline;  // kept until a sample is judged
  if ((flags & rule.input.flags_not_judged) != 0) return;
  if (subject.fed == 0) {
    fed_.push_back(index);
    subject.sum = 0;
    subject.low = value;
    subject.high = value;
    subject.values.clear();
  }
  ++subject.fed;
  subject.sum += value;
  subject.low = std::min(subject.low, value);
  subject.high = std::max(subject.high, value);
  if (rule.input.combine != Input::Combine::kNone) {
    subject.values.resize(rule.input.indicators.size(), std::numeric_limits<double>::quiet_NaN());
    subject.values[component] = value;
  } else if (rule.input.aggregate == Input::Aggregate::kP10) {
    subject.values.push_back(value);
  }
}

std::optional<double> RuleJudge::Aggregate(const Rule& rule, Subject* subject) const {
  std::vector<double>& values = subject->values;
  if (rule.input.combine != Input::Combine::kNone) {
    if (std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); })) {
      return std::nullopt;
    }
    double squares = 0;
    for (const double x : values) squares += x * x;
    switch (rule.input.combine) {
      case Input::Combine::kNorm:
        return std::sqrt(squares);
      case Input::Combine::kSum:
        return subject->sum;
      case Input::Combine::kMean:
        return subject->sum / static_cast<double>(values.size());
      case Input::Combine::kMin:
        return subject->low;
      default:
        return subject->high;
    }
  }
  switch (rule.input.aggregate) {
    case Input::Aggregate::kMean:
      return subject->sum / subject->fed;
    case Input::Aggregate::kMin:
      return subject->low;
    case Input::Aggregate::kMax:
      return subject->high;
    case Input::Aggregate::kP10:
      return Percentile10(values);
    case Input::Aggregate::kEach:
      return subject->sum / subject->fed;  // one value
  }
  return std::nullopt;
}

std::optional<Baseline> RuleJudge::GivenBaseline(const Rule& rule, const StepView& view,
                                                 const Subject& subject) const {
  if (rule.baseline.kind == BaselineSpec::Kind::kPlateau && view.plateau.has_value()) {
    return Baseline{.median = *view.plateau, .spread = 0};
  }
  if (subject.curve == nullptr) return std::nullopt;
  if (rule.baseline.band->align() == Band::Align::kStep) {
    return subject.curve->At(static_cast<double>(view.step));
  }
  if (!view.tokens.has_value()) return std::nullopt;
  return subject.curve->At(*view.tokens);
}

void RuleJudge::JudgeSubject(const Rule& rule, const StepView& view, Subject* subject) {
  const int64_t previous = subject->last_step;
  if (previous >= 0) subject->interval = view.step - previous;
  subject->last_step = view.step;

  // The last step this value does not reflect.
  int64_t base = previous >= 0 ? previous : view.step - 1;
  if (absl::StartsWith(rule.input.indicators[0], "attn.delta")) {
    const auto window = view.window_steps.find(subject->layer);
    if (window != view.window_steps.end()) base = view.step - window->second;
  }
  std::optional<double> value = Aggregate(rule, subject);
  if (value.has_value() && !rule.input.divide_by.empty()) {
    // A run-wide value is divided by what the divisor is at the same step.
    const bool run_wide = subject->layer == kNoLayer && subject->unit == Unit::kNone;
    const bool know_window = run_wide || previous >= 0 || base < view.step - 1;
    const std::optional<double> divisor =
        know_window ? view.mean_since(rule.input.divide_by, run_wide ? view.step - 1 : base)
                    : std::nullopt;
    if (divisor.has_value() && *divisor != 0) {
      *value /= *divisor;
    } else {
      value.reset();
    }
  }
  if (!value.has_value() || !std::isfinite(*value)) return;
  if (!rule.judged_in_warm_up && !view.settled) return;
  if (subject->flags != 0 && (rule.rebase_on & kRebaseWindow) != 0) subject->judge.Rebase();
  subject->flags = 0;
  judged_ = true;
  // A smoothed value reflects all that it is the median of.
  const int64_t smoothed_base = base - (rule.input.smooth - 1);
  const Transition transition = subject->judge.Push(rule, view.step, smoothed_base, *value,
                                                    GivenBaseline(rule, view, *subject));
  if (transition != Transition::kNone) changed_ = true;
}

bool RuleJudge::Judge(const Rule& rule, const StepView& view) {
  judged_ = false;
  changed_ = false;
  if ((view.rebase_causes & rule.rebase_on) != 0) {
    for (Subject& subject : subjects_) {
      if (subject.judge.machine().phase != Phase::kFiring) subject.judge.Rebase();
    }
  }
  switch (rule.detector.kind) {
    case Detector::Kind::kNonFinite:
      JudgeFindings(rule, view);
      break;
    case Detector::Kind::kNoData:
      JudgeNoData(rule, view);
      break;
    case Detector::Kind::kHang:
    case Detector::Kind::kCoverage:
    case Detector::Kind::kRestarts:
      JudgeRunLevel(rule, view);
      break;
    default:
      for (const size_t index : fed_) JudgeSubject(rule, view, &subjects_[index]);
  }
  for (const size_t index : fed_) {
    subjects_[index].fed = 0;
  }
  fed_.clear();
  const bool more_ranks =
      alert_.active &&
      std::any_of(finding_ranks_.begin(), finding_ranks_.end(), [this](uint32_t r) {
        return std::find(alert_.ranks.begin(), alert_.ranks.end(), r) == alert_.ranks.end();
      });
  // One that flaps ends when it has been clear for long, without a sample that changes anything.
  return changed_ || more_ranks || flapping() ? UpdateAlert(rule, view) : false;
}

void RuleJudge::TakeOvertaken(const Rule& rule, int64_t step) {
  // What it was divided or smoothed by is gone.
  const bool as_it_is = rule.input.divide_by.empty() && rule.input.smooth <= 1;
  for (const size_t index : fed_) {
    Subject& subject = subjects_[index];
    const std::optional<double> value = Aggregate(rule, &subject);
    if (as_it_is && value.has_value()) subject.judge.Overtaken(rule, step, *value);
    subject.fed = 0;
    subject.flags = 0;
  }
  fed_.clear();
}

void RuleJudge::Resume(const Rule& rule, int64_t step) {
  for (Subject& subject : subjects_) {
    subject.judge.Resume(rule, step);
    subject.fed = 0;
    // The parent's samples before the resume are the past of this attempt too; the first sample
    // of the attempt has no previous one to be the base of.
    subject.last_step = -1;
  }
  fed_.clear();
  limit_.Resume(step);
}

void RuleJudge::Silence() {
  for (Subject& subject : subjects_) {
    if (subject.judge.firing()) subject.judge.Silence();
  }
  if (alert_.active) limit_.TakeBack();
  alert_ = LiveAlert();
}

void RuleJudge::Fields(const Rule& rule, Archive* archive) {
  size_t count = subjects_.size();
  archive->Count(&count);
  for (size_t i = 0; i < count; ++i) {
    SeriesKey key;
    if (!archive->reading()) {
      const Subject& subject = subjects_[i];
      key = {"", subject.layer, subject.unit, subject.unit_id, subject.unit_name};
    }
    archive->Take(&key.layer, &key.unit, &key.unit_id, &key.unit_name);
    Subject& subject = subjects_[archive->reading() ? FindOrAdd(rule, key) : i];
    subject.judge.Fields(rule, archive);
    archive->Take(&subject.last_step, &subject.gap, &subject.interval);
  }
  archive->Take(&alert_, &limit_, &worst_, &finding_ranks_, &finding_layers_, &finding_name_,
                &finding_head_, &judged_, &last_fired_, &last_resolved_);
  if (worst_ >= subjects_.size()) worst_ = kNotFed;
}

}  // namespace foreshock
