// From the states of a rule's series to its one alert: quorum, where it holds, what it says, what
// is stored of it.

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "daemon/base/archive.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {

size_t Quorum::Of(size_t total) const {
  const double of_share = std::ceil(share * static_cast<double>(total) - 1e-9);
  return std::max(
      {static_cast<size_t>(count), static_cast<size_t>(std::max(of_share, 0.0)), size_t{1}});
}

bool RuleJudge::Quorate(bool brewing, std::vector<uint32_t>* layers) const {
  // Series of one layer stand together; std::map keeps the layers sorted.
  struct Count {
    size_t on = 0;
    size_t all = 0;
  };
  std::map<int32_t, Count> by_layer;
  for (const Subject& subject : subjects_) {
    Count& count = by_layer[subject.series.layer];
    ++count.all;
    const SeriesJudge& judge = subject.judge;
    if (brewing ? judge.breaching() : judge.firing()) ++count.on;
  }
  size_t on = 0;
  for (const auto& [layer, count] : by_layer) {
    if (count.on < rule_->units.Of(count.all)) continue;
    ++on;
    if (layers != nullptr && layer >= 0) layers->push_back(static_cast<uint32_t>(layer));
  }
  return on >= rule_->layers.Of(by_layer.size());
}

bool RuleJudge::Brewing() const { return Quorate(/*brewing=*/true, nullptr); }

void RuleJudge::StartAlert(const StepView& view) {
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
  limit_.Start(rule_->rate_limit, view.step);
}

bool RuleJudge::UpdateAlert(const StepView& view) {
  std::vector<uint32_t> layers;
  const bool promised = alert_.active || !promise_.has_value() || promise_->open();
  const bool fires = promised && Quorate(/*brewing=*/false, &layers);
  if (!fires) {
    if (!alert_.active || limit_.Holds(rule_->rate_limit, view.step)) return false;
    alert_.active = false;
    last_resolved_ = view.step;
    return true;
  }
  limit_.Seen();
  PlaceAlert(&layers);
  const bool starts = !alert_.active;
  if (starts) StartAlert(view);
  std::vector<uint32_t> ranks = alert_.ranks;
  for (const uint32_t rank : ranks_now_) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  const bool changed = starts || layers != alert_.layers || ranks != alert_.ranks;
  FindWorst();
  alert_.layers = std::move(layers);
  alert_.ranks = std::move(ranks);
  // One sampled layer of many is that layer, not all of them.
  alert_.all_layers = layers_known_ > 0 && alert_.layers.size() == layers_known_ &&
                      (layers_known_ > 1 || view.model_layers == 1);
  return changed;
}

// How far a value is from health, larger is worse.
double RuleJudge::DistanceOf(const SeriesJudge& judge) const {
  const double above = judge.value() - judge.baseline().value_or(0);
  switch (SideOf(rule_->detector)) {
    case Side::kBelow:
      return -above;
    case Side::kOutside:
      return std::abs(above);
    case Side::kAbove:
      break;
  }
  return above;
}

// The series that fires and is farthest from health; the last such one when none fires any more.
void RuleJudge::FindWorst() {
  std::optional<double> worst;
  for (size_t i = 0; i < subjects_.size(); ++i) {
    const SeriesJudge& judge = subjects_[i].judge;
    if (!judge.firing()) continue;
    const double distance = DistanceOf(judge);
    if (worst.has_value() && distance <= *worst) continue;
    worst = distance;
    worst_ = i;
  }
}

void RuleJudge::KeepRecord(int64_t step, bool told) {
  if (!alert_.active) return;
  AlertRecord& record = alert_.record;
  const int64_t worst_step = record.worst_step();
  for (const Subject& subject : subjects_) {
    const SeriesJudge& judge = subject.judge;
    if (!judge.firing()) continue;
    record.Take({.series = subject.series,
                 .step = step,
                 .value = judge.value(),
                 .baseline = judge.baseline(),
                 .distance = DistanceOf(judge)});
  }
  if (told || record.worst_step() != worst_step) record.set_sentence(Sentence());
}

void RuleJudge::DescribeSource(v1::Alert* out) const {
  out->set_indicator(rule_->input.indicators[0]);
}

void RuleJudge::Describe(v1::Alert* out) const {
  if (!alert_.active) {
    DescribeRecord(alert_.record, out);
    return;
  }
  DescribeSource(out);
  if (!alert_.ranks.empty()) out->set_rank(alert_.ranks.front());
  if (worst() == nullptr) return;
  const SeriesJudge& judge = worst()->judge;
  out->set_value(judge.value());
  if (judge.baseline().has_value()) out->set_baseline(*judge.baseline());
  ShowUnit(worst()->series, out);
}

void RuleJudge::DescribeRecord(const AlertRecord& record, v1::Alert* out) const {
  DescribeSource(out);
  if (!alert_.ranks.empty()) out->set_rank(alert_.ranks.front());
  record.ShowIn(out);
}

void RuleJudge::SaveState(base::Archive* archive) {
  AlertState state{.base_step = alert_.base_step, .ranks = alert_.ranks, .record = alert_.record};
  archive->Take(&state, &limit_);
  SeriesFields(Remembered::kFiring, archive);
}

bool RuleJudge::Restore(const v1::Alert& alert, base::Archive* stored, bool replayed) {
  AlertState state;
  stored->Take(&state);
  if (!replayed) {
    Silence();
    stored->Take(&limit_);
    SeriesFields(Remembered::kFiring, stored);
    FindWorst();
  }
  if (replayed ? !stored->ok() : !stored->AtEnd()) {
    Silence();
    return false;
  }
  if (replayed) state.record = std::move(alert_.record);
  alert_ = LiveAlertOf(alert, state);
  last_fired_ = alert.firing_step();
  RestoreSource(alert);
  return true;
}

LiveAlert LiveAlertOf(const v1::Alert& alert, const AlertState& state) {
  LiveAlert live;
  live.active = true;
  live.reported = true;
  live.id = alert.id();
  live.attempt = alert.attempt();
  live.pending_step = alert.pending_step();
  live.firing_step = alert.firing_step();
  live.base_step = state.base_step;
  live.layers.assign(alert.layers().begin(), alert.layers().end());
  live.all_layers = alert.all_layers();
  live.ranks = state.ranks;
  live.record = state.record;
  return live;
}

}  // namespace foreshock::rules
