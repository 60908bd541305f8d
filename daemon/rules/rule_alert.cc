// From the states of a rule's series to its one alert: quorum, where it holds, what it says, what
// is stored of it.

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
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

// The series that fires and is farthest from health; the last such one when none fires any more.
void RuleJudge::FindWorst() {
  const Side side = SideOf(rule_->detector);
  std::optional<double> worst;
  for (size_t i = 0; i < subjects_.size(); ++i) {
    const SeriesJudge& judge = subjects_[i].judge;
    if (!judge.firing()) continue;
    double badness = judge.value() - judge.baseline().value_or(0);
    if (side == Side::kBelow) badness = -badness;
    if (side == Side::kOutside) badness = std::abs(badness);
    if (worst.has_value() && badness <= *worst) continue;
    worst = badness;
    worst_ = i;
  }
}

void RuleJudge::DescribeSource(v1::Alert* out) const {
  out->set_indicator(rule_->input.indicators[0]);
}

void RuleJudge::Describe(v1::Alert* out) const {
  DescribeSource(out);
  if (!alert_.ranks.empty()) out->set_rank(alert_.ranks.front());
  if (worst() == nullptr) return;
  const model::SeriesKey& series = worst()->series;
  const SeriesJudge& judge = worst()->judge;
  out->set_value(judge.value());
  if (judge.baseline().has_value()) out->set_baseline(*judge.baseline());
  if (series.unit == model::Unit::kHead) out->set_head(static_cast<uint32_t>(series.unit_id));
  if (series.unit == model::Unit::kRank) out->set_rank(static_cast<uint32_t>(series.unit_id));
  if (series.unit == model::Unit::kTensor) out->set_unit_name(series.unit_name);
  if (series.unit == model::Unit::kExpert)
    out->set_unit_name(absl::StrCat("expert ", series.unit_id));
}

void RuleJudge::SaveState(base::Archive* archive) {
  AlertState state{.base_step = alert_.base_step, .ranks = alert_.ranks};
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
  return live;
}

}  // namespace foreshock::rules
