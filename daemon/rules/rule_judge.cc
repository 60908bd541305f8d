#include "daemon/rules/rule_judge.h"

#include <algorithm>
#include <utility>

#include "daemon/base/archive.h"
#include "daemon/rules/evaluator.h"

namespace foreshock::rules {

RuleJudge::RuleJudge(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {
  if (rule_->promise_samples > 0) promise_.emplace(rule_->promise_samples);
}

size_t RuleJudge::FindOrAdd(const model::SeriesKey& key) {
  const auto [found, added] = by_key_.try_emplace(key, subjects_.size());
  if (!added) return found->second;
  const auto same_layer = [&key](const Subject& other) { return other.series.layer == key.layer; };
  if (key.layer >= 0 && std::none_of(subjects_.begin(), subjects_.end(), same_layer)) {
    ++layers_known_;
  }
  Subject subject(key, *rule_);
  if (rule_->baseline.band != nullptr) {
    model::SeriesKey series = key;
    series.indicator = rule_->input.indicators[0];
    subject.curve = rule_->baseline.band->Find(rule_->input.aggregate, series);
  }
  subjects_.push_back(std::move(subject));
  return found->second;
}

size_t RuleJudge::SubjectOf(const model::SeriesKey& series) {
  const Input& input = rule_->input;
  const bool of_rank = series.unit == model::Unit::kRank;
  if (input.scope == (of_rank ? Input::Scope::kRun : Input::Scope::kRank)) return kNotFed;
  model::SeriesKey key = series;
  key.indicator.clear();
  if (input.combine != Input::Combine::kNone) {
    if (series.layer != model::kNoLayer || series.unit != model::Unit::kNone) return kNotFed;
  } else if (input.aggregate != Input::Aggregate::kEach) {
    key.unit = model::Unit::kNone;
    key.unit_id = 0;
    key.unit_name.clear();
  }
  return FindOrAdd(key);
}

void RuleJudge::Feed(size_t index, size_t component, double value, uint32_t flags) {
  Subject& subject = subjects_[index];
  subject.flags |= flags & model::kFlagRebaseline;  // kept until a sample is judged
  if ((flags & rule_->input.flags_not_judged) != 0) {
    NoteNotJudged(NotJudged::kMarked);
    return;
  }
  if (subject.values.empty()) fed_.push_back(index);
  subject.values.Add(rule_->input, component, value);
}

void RuleJudge::ClearFed() {
  for (const size_t index : fed_) subjects_[index].values.Clear();
  fed_.clear();
}

void RuleJudge::PushVerdict(const StepView& view, size_t subject, const Verdict& verdict) {
  NoteVerdict();
  Note(subjects_[subject].judge.PushVerdict(view.step, verdict.base_step, verdict.breach,
                                            verdict.value, verdict.baseline));
}

void RuleJudge::Accept() {
  for (Subject& subject : subjects_) {
    if (subject.judge.machine().phase == Phase::kInactive) continue;
    subject.judge.Accept();
    accepted_ = true;
  }
}

bool RuleJudge::Judge(const StepView& view) {
  judged_ = false;
  has_verdict_ = false;
  ranks_now_.clear();
  if ((view.rebase_causes & rule_->rebase_on) != 0) {
    // What was declared is believed, also where an alert fires.
    if ((view.rebase_causes & rule_->rebase_on & kRebaseData) != 0) Accept();
    for (Subject& subject : subjects_) subject.judge.Rebase();
  }
  changed_ = std::exchange(accepted_, false);
  JudgeStep(view);
  rows_.Row(view.step, /*has_value=*/!fed_.empty(), has_verdict_);
  PushPromise();
  ClearFed();
  const auto is_new = [this](uint32_t rank) {
    return std::find(alert_.ranks.begin(), alert_.ranks.end(), rank) == alert_.ranks.end();
  };
  const bool more_ranks =
      alert_.active && std::any_of(ranks_now_.begin(), ranks_now_.end(), is_new);
  // One that flaps ends when it has been clear for long, without a sample that changes anything.
  const bool told = (changed_ || more_ranks || flapping()) && UpdateAlert(view);
  KeepRecord(view.step, told);
  return told;
}

void RuleJudge::PushPromise() {
  if (!promise_.has_value()) return;
  for (const size_t index : fed_) {
    if (promise_->Push(index, subjects_[index].judge.firing())) changed_ = true;
  }
}

bool RuleJudge::Tick(const StepView& view, const ClockView& clock) {
  judged_ = false;
  changed_ = false;
  ranks_now_.clear();
  JudgeClock(view, clock);
  const bool told = changed_ && UpdateAlert(view);
  KeepRecord(view.step, told);
  return told;
}

void RuleJudge::TakeOvertaken(int64_t step) {
  // What it was divided or smoothed by is gone.
  const Input& input = rule_->input;
  const bool as_it_is = input.divide_by.empty() && !input.siblings && input.smooth <= 1;
  for (const size_t index : fed_) {
    Subject& subject = subjects_[index];
    const std::optional<double> value = subject.values.Value(rule_->input);
    if (as_it_is && value.has_value()) subject.judge.Overtaken(step, *value);
    subject.flags = 0;
  }
  ClearFed();
}

void RuleJudge::Resume(int64_t step) {
  ClearFed();
  for (Subject& subject : subjects_) {
    subject.judge.Resume(step);
    // The parent's samples before the resume are the past of this attempt too. The first sample of
    // the attempt has no previous one to be the base of.
    subject.last_step = -1;
  }
  limit_.Resume(step);
}

void RuleJudge::Silence() {
  for (Subject& subject : subjects_) {
    if (subject.judge.firing()) subject.judge.Silence();
  }
  if (alert_.active) limit_.TakeBack();
  alert_ = LiveAlert();
}

void RuleJudge::SeriesFields(Remembered which, base::Archive* archive) {
  std::vector<size_t> places;
  for (size_t i = 0; i < subjects_.size() && !archive->reading(); ++i) {
    if (which == Remembered::kAll || subjects_[i].judge.firing()) places.push_back(i);
  }
  uint64_t count = places.size();
  archive->Take(&count);
  for (uint64_t i = 0; i < count && archive->ok(); ++i) {
    model::SeriesKey key;
    if (!archive->reading()) key = subjects_[places[i]].series;
    archive->Take(&key.layer, &key.unit, &key.unit_id, &key.unit_name);
    Subject& subject = subjects_[archive->reading() ? FindOrAdd(key) : places[i]];
    subject.judge.AlertFields(archive);
    if (which == Remembered::kFiring) continue;
    subject.judge.HistoryFields(archive);
    archive->Take(&subject.last_step, &subject.gap, &subject.interval);
    archive->Take(&subject.window, &subject.other_window);
    if (rule_->input.siblings) archive->Take(&subject.newest);
  }
}

void RuleJudge::Fields(base::Archive* archive) {
  SeriesFields(Remembered::kAll, archive);
  archive->Take(&alert_, &limit_, &worst_, &rows_, &judged_, &accepted_, &last_fired_,
                &last_resolved_);
  if (worst_ >= subjects_.size()) worst_ = kNotFed;
  if (promise_.has_value()) promise_->Fields(archive);
  OwnFields(archive);
}

std::vector<JudgedSeries> RuleJudge::Judged(int64_t step) const {
  std::vector<JudgedSeries> judged;
  for (const Subject& subject : subjects_) {
    const SeriesJudge& judge = subject.judge;
    if (judge.judged_step() != step) continue;
    judged.push_back({.layer = subject.series.layer,
                      .unit = subject.series.unit,
                      .unit_id = subject.series.unit_id,
                      .unit_name = subject.series.unit_name,
                      .value = judge.value(),
                      .baseline = judge.baseline(),
                      .limit = LimitFor(rule_->detector, judge.baseline()),
                      .measured = judge.measured(),
                      .breaching = judge.breaching(),
                      .firing = judge.firing()});
  }
  return judged;
}

}  // namespace foreshock::rules
