#include "daemon/rules/rule_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace foreshock {

size_t Quorum::Of(size_t total) const {
  const double of_share = std::ceil(share * static_cast<double>(total) - 1e-9);
  return std::max(
      {static_cast<size_t>(count), static_cast<size_t>(std::max(of_share, 0.0)), size_t{1}});
}

size_t RuleJudge::FindOrAdd(const SeriesKey& key) {
  const auto [found, added] = by_key_.try_emplace(key, subjects_.size());
  if (added) {
    Subject subject;
    subject.layer = key.layer;
    subject.unit = key.unit;
    subject.unit_id = key.unit_id;
    subject.unit_name = key.unit_name;
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
  return FindOrAdd(key);
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
    case Input::Aggregate::kP10: {
      const auto tenth = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 10);
      std::nth_element(values.begin(), tenth, values.end());
      return *tenth;
    }
    case Input::Aggregate::kEach:
      return subject->sum / subject->fed;  // one value
  }
  return std::nullopt;
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
  const Transition transition =
      subject->judge.Push(rule, view.step, smoothed_base, *value, view.plateau);
  if (transition != Transition::kNone) changed_ = true;
}

void RuleJudge::JudgeNoData(const Rule& rule, const StepView& view) {
  for (const size_t index : fed_) {
    Subject& subject = subjects_[index];
    if (subject.last_step >= 0) {
      const int64_t gap = view.step - subject.last_step;
      subject.interval = std::max(gap, subject.gap);
      subject.gap = gap;
    }
    subject.last_step = view.step;
  }
  for (Subject& subject : subjects_) {
    if (subject.last_step < 0)
      subject.last_step = view.step;      // a new attempt counts from its start
    if (subject.interval == 0) continue;  // what is expected is known from the second sample on
    const int64_t missed = (view.step - subject.last_step) / subject.interval;
    judged_ = true;
    const Transition transition =
        subject.judge.PushVerdict(rule, view.step, subject.last_step,
                                  missed >= rule.detector.intervals, static_cast<double>(missed));
    if (transition != Transition::kNone) changed_ = true;
  }
}

namespace {

bool NameMatches(const std::vector<std::string>& patterns, const std::string& name) {
  if (patterns.empty()) return true;
  return std::any_of(patterns.begin(), patterns.end(), [&name](absl::string_view pattern) {
    return absl::ConsumeSuffix(&pattern, "*") ? absl::StartsWith(name, pattern) : name == pattern;
  });
}

}  // namespace

void RuleJudge::JudgeFindings(const Rule& rule, const StepView& view) {
  finding_ranks_.clear();
  const bool skipped = view.row.skipped && !rule.detector.skipped_steps;
  absl::flat_hash_set<int64_t> known_ranks;
  std::vector<uint32_t> layers;
  double count = 0;
  const Finding* first = nullptr;
  for (const Finding& finding : view.findings) {
    if (finding.kind != Finding::Kind::kNonFinite || skipped) continue;
    if (!NameMatches(rule.detector.names, finding.name)) continue;
    const auto senders = view.rank_scalars.find(finding.name);
    const bool per_rank = senders != view.rank_scalars.end();
    if (rule.detector.scope == Input::Scope::kRank && !per_rank) continue;
    if (rule.detector.scope == Input::Scope::kRun && per_rank) continue;
    if (per_rank) known_ranks.insert(senders->second.begin(), senders->second.end());
    if (first == nullptr) first = &finding;
    finding_ranks_.push_back(finding.rank);
    if (finding.layer >= 0) layers.push_back(static_cast<uint32_t>(finding.layer));
    count += static_cast<double>(finding.count);
  }
  std::sort(finding_ranks_.begin(), finding_ranks_.end());
  finding_ranks_.erase(std::unique(finding_ranks_.begin(), finding_ranks_.end()),
                       finding_ranks_.end());
  for (const uint32_t rank : finding_ranks_) known_ranks.insert(rank);
  const size_t ranks = rule.detector.scope == Input::Scope::kRank
                           ? known_ranks.size()
                           : std::max<size_t>(view.row.ranks, known_ranks.size());
  const double share =
      ranks == 0 ? 0 : static_cast<double>(finding_ranks_.size()) / static_cast<double>(ranks);
  const bool breach = first != nullptr && share > rule.detector.ranks_more_than &&
                      share <= rule.detector.ranks_at_most;
  if (breach && !alert_.active) {
    finding_name_ = first->name;
    finding_head_ = first->head;
    finding_layers_.clear();
  }
  if (breach) {
    for (const uint32_t layer : layers) finding_layers_.push_back(layer);
    std::sort(finding_layers_.begin(), finding_layers_.end());
    finding_layers_.erase(std::unique(finding_layers_.begin(), finding_layers_.end()),
                          finding_layers_.end());
  }
  if (!breach) finding_ranks_.clear();
  const size_t subject = FindOrAdd(SeriesKey{});
  judged_ = true;
  const Transition transition =
      subjects_[subject].judge.PushVerdict(rule, view.step, view.step - 1, breach, count);
  if (transition != Transition::kNone) changed_ = true;
}

bool RuleJudge::Quorate(const Rule& rule, bool brewing, std::vector<uint32_t>* layers) const {
  // Series of one layer stand together; std::map keeps the layers sorted.
  struct Count {
    size_t on = 0;
    size_t all = 0;
  };
  std::map<int32_t, Count> by_layer;
  for (const Subject& subject : subjects_) {
    Count& count = by_layer[subject.layer];
    ++count.all;
    const SeriesJudge& judge = subject.judge;
    if (brewing ? judge.breaching() : judge.firing()) ++count.on;
  }
  size_t on = 0;
  for (const auto& [layer, count] : by_layer) {
    if (count.on < rule.units.Of(count.all)) continue;
    ++on;
    if (layers != nullptr && layer >= 0) layers->push_back(static_cast<uint32_t>(layer));
  }
  return on >= rule.layers.Of(by_layer.size());
}

bool RuleJudge::Brewing(const Rule& rule) const { return Quorate(rule, true, nullptr); }

bool RuleJudge::UpdateAlert(const Rule& rule, const StepView& view) {
  std::vector<uint32_t> layers;
  const bool fires = Quorate(rule, false, &layers);
  if (!fires) {
    if (!alert_.active) return false;
    alert_.active = false;
    last_resolved_ = view.step;
    return true;
  }
  if (rule.detector.kind == Detector::Kind::kNonFinite) layers = finding_layers_;
  const bool starts = !alert_.active;
  if (starts) {
    alert_ = LiveAlert();
    alert_.active = true;
    alert_.attempt = view.row.attempt;
    alert_.firing_step = view.step;
    alert_.pending_step = view.step;
    alert_.base_step = view.step;
    for (const Subject& subject : subjects_) {
      if (!subject.judge.firing()) continue;
      alert_.pending_step = std::min(alert_.pending_step, subject.judge.machine().pending_step);
      alert_.base_step = std::min(alert_.base_step, subject.judge.base_step());
    }
    last_fired_ = view.step;
  }
  std::vector<uint32_t> ranks = alert_.ranks;
  for (const uint32_t rank : finding_ranks_) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  const bool changed = starts || layers != alert_.layers || ranks != alert_.ranks;
  FindWorst(rule);
  alert_.layers = std::move(layers);
  alert_.ranks = std::move(ranks);
  // One sampled layer of many is that layer, not all of them.
  alert_.all_layers = layers_known_ > 0 && alert_.layers.size() == layers_known_ &&
                      (layers_known_ > 1 || view.model_layers == 1);
  return changed;
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
  return changed_ || more_ranks ? UpdateAlert(rule, view) : false;
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
}

void RuleJudge::Silence() {
  for (Subject& subject : subjects_) {
    if (subject.judge.firing()) subject.judge.Silence();
  }
  alert_ = LiveAlert();
}

// The series that fires and is farthest from health; the last such one when none fires any more.
void RuleJudge::FindWorst(const Rule& rule) {
  std::optional<double> worst;
  for (size_t i = 0; i < subjects_.size(); ++i) {
    const SeriesJudge& judge = subjects_[i].judge;
    if (!judge.firing()) continue;
    double badness = judge.value() - judge.baseline().value_or(0);
    if (rule.detector.side == Detector::Side::kBelow) badness = -badness;
    if (rule.detector.side == Detector::Side::kOutside) badness = std::abs(badness);
    if (worst.has_value() && badness <= *worst) continue;
    worst = badness;
    worst_ = i;
  }
}

void RuleJudge::Describe(const Rule& rule, v1::Alert* out) const {
  if (rule.detector.kind == Detector::Kind::kNonFinite) {
    out->set_indicator("train.nonfinite");
    out->set_unit_name(finding_name_);
    if (finding_head_ >= 0) out->set_head(static_cast<uint32_t>(finding_head_));
    if (!alert_.ranks.empty()) out->set_rank(alert_.ranks.front());
  } else {
    out->set_indicator(rule.input.indicators[0]);
  }
  if (worst_ >= subjects_.size()) return;
  const Subject* worst = &subjects_[worst_];
  out->set_value(worst->judge.value());
  if (worst->judge.baseline().has_value()) out->set_baseline(*worst->judge.baseline());
  if (worst->unit == Unit::kHead) out->set_head(static_cast<uint32_t>(worst->unit_id));
  if (worst->unit == Unit::kRank) out->set_rank(static_cast<uint32_t>(worst->unit_id));
  if (worst->unit == Unit::kTensor) out->set_unit_name(worst->unit_name);
  if (worst->unit == Unit::kExpert) out->set_unit_name(absl::StrCat("expert ", worst->unit_id));
}

void RuleJudge::Save(rules::AlertState* state) const {
  for (const Subject& subject : subjects_) {
    if (!subject.judge.firing()) continue;
    rules::SeriesState* series = state->add_series();
    subject.judge.Save(series);
    series->set_layer(subject.layer);
    series->set_unit(static_cast<uint32_t>(subject.unit));
    series->set_unit_id(subject.unit_id);
    series->set_unit_name(subject.unit_name);
  }
  state->set_base_step(alert_.base_step);
  state->mutable_ranks()->Add(alert_.ranks.begin(), alert_.ranks.end());
}

void RuleJudge::Restore(const Rule& rule, const v1::Alert& alert, const rules::AlertState& state,
                        bool replayed) {
  if (!replayed) {
    Silence();
    for (const rules::SeriesState& series : state.series()) {
      SeriesKey key;
      key.layer = series.layer();
      key.unit = static_cast<Unit>(series.unit());
      key.unit_id = series.unit_id();
      key.unit_name = series.unit_name();
      subjects_[FindOrAdd(key)].judge.Restore(series);
    }
    FindWorst(rule);
  }
  alert_ = LiveAlertOf(alert, state);
  last_fired_ = alert.firing_step();
  if (rule.detector.kind == Detector::Kind::kNonFinite) {
    finding_name_ = alert.unit_name();
    finding_head_ = alert.has_head() ? static_cast<int32_t>(alert.head()) : -1;
    finding_layers_ = alert_.layers;
  }
}

LiveAlert LiveAlertOf(const v1::Alert& alert, const rules::AlertState& state) {
  LiveAlert live;
  live.active = true;
  live.reported = true;
  live.id = alert.id();
  live.attempt = alert.attempt();
  live.pending_step = alert.pending_step();
  live.firing_step = alert.firing_step();
  live.base_step = state.base_step();
  live.layers.assign(alert.layers().begin(), alert.layers().end());
  live.all_layers = alert.all_layers();
  live.ranks.assign(state.ranks().begin(), state.ranks().end());
  return live;
}

}  // namespace foreshock
