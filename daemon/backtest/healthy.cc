#include "daemon/backtest/healthy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::backtest {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr double kRatioMin = 1e-12;
constexpr size_t kTimesMax = 1'000'000;

double NthLargest(std::vector<double> values, size_t n) {
  if (n == 0 || n > values.size()) return kNever;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(n - 1);
  std::nth_element(values.begin(), at, values.end(), std::greater<>());
  return *at;
}

}  // namespace

double ToScale(const rules::Limits& limits, double measured) {
  const bool ratio = limits.scale == rules::Limits::Scale::kRatio;
  switch (limits.side) {
    case rules::Side::kAbove:
      return ratio ? std::log(std::max(measured, kRatioMin)) : measured;
    case rules::Side::kBelow:
      return ratio ? -std::log(std::max(measured, kRatioMin)) : -measured;
    case rules::Side::kOutside:
      return std::abs(measured);
  }
  return measured;
}

double FromScale(const rules::Limits& limits, double scaled) {
  const double turned = limits.side == rules::Side::kBelow ? -scaled : scaled;
  return limits.scale == rules::Limits::Scale::kRatio ? std::exp(turned) : turned;
}

std::shared_ptr<const rules::Rule> WithLimits(const rules::Rule& rule, double limit, double clear) {
  auto changed = std::make_shared<rules::Rule>(rule);
  if (rules::Limits* const limits = rules::MovableLimits(&changed->detector)) {
    limits->limit = limit;
    limits->clear = clear;
  }
  return changed;
}

double SeriesStatistic::Push(const rules::Rule& rule, int64_t step, double scaled) {
  recent_.push_back(scaled);
  if (recent_.size() > static_cast<size_t>(rule.machine.of)) recent_.pop_front();
  calm_.push_back(scaled);
  if (calm_.size() > static_cast<size_t>(rule.machine.clear_samples)) calm_.pop_front();
  firing_ = std::max(Starts(rule.machine, step), std::min(firing_, Ends(rule)));
  return firing_;
}

// The highest limit that starts to fire at the newest sample.
double SeriesStatistic::Starts(const rules::MachineParams& machine, int64_t step) {
  double starts = NthLargest({recent_.begin(), recent_.end()}, static_cast<size_t>(machine.hits));
  const rules::Length& pending = machine.pending_for;
  if (pending.count <= 0) return starts;
  // Pending lives on while one of the newest `of` samples breaches.
  alive_.push_back({step, *std::max_element(recent_.begin(), recent_.end())});
  const auto long_enough = [&](size_t i) {
    return pending.in_samples ? alive_.size() - i >= static_cast<size_t>(pending.count)
                              : step - alive_[i].step >= pending.count;
  };
  while (alive_.size() > 1 && long_enough(1)) alive_.pop_front();
  if (!long_enough(0)) return kNever;
  for (const Alive& alive : alive_) starts = std::min(starts, alive.worst);
  return starts;
}

// The lowest limit that is cleared at the newest sample. `clear` moves with the limit as ClearFor
// moves it: a value stays, a distance from the baseline keeps its share of the limit's.
double SeriesStatistic::Ends(const rules::Rule& rule) const {
  if (calm_.size() < static_cast<size_t>(rule.machine.clear_samples)) return -kNever;
  const double worst = *std::max_element(calm_.begin(), calm_.end());
  const rules::Limits& limits = *rules::MovableLimits(rule.detector);
  const double limit = ToScale(limits, limits.limit);
  const double clear = ToScale(limits, limits.clear);
  if (clear >= limit) return worst;
  if (limits.scale == rules::Limits::Scale::kValue) return worst <= clear ? worst : -kNever;
  if (clear > 0) return worst * limit / clear;
  return worst <= clear ? kNever : -kNever;
}

HealthyHistory::HealthyHistory(std::shared_ptr<const rules::CompiledRules> rules)
    : rules_(std::move(rules)),
      unreachable_(std::make_shared<rules::CompiledRules>()),
      places_(rules_->rules.size()),
      series_(rules_->rules.size()),
      histories_(rules_->rules.size()),
      begun_(rules_->rules.size(), 0),
      samples_(rules_->rules.size(), 0) {
  for (const auto& rule : rules_->rules) {
    const rules::Limits* limits = rules::MovableLimits(rule->detector);
    const bool below = limits != nullptr && limits->side == rules::Side::kBelow;
    const double never =
        below ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    unreachable_->rules.push_back(WithLimits(*rule, never, never));
  }
}

void HealthyHistory::BeginAttempt(const std::string& run, const v1::ModelShape& model,
                                  const rules::AttemptStart& attempt) {
  if (evaluator_ == nullptr) {
    evaluator_ = std::make_unique<rules::Evaluator>(unreachable_, run, model);
    for (std::vector<ExcursionSeries>& histories : histories_) histories.emplace_back();
  }
  evaluator_->BeginAttempt(attempt);
  // Steps may go back: what follows is another stretch of history.
  for (std::vector<ExcursionSeries>& histories : histories_) {
    if (!histories.back().empty()) histories.emplace_back();
  }
  for (std::vector<Series>& series : series_) {
    for (Series& one : series) one.statistic.Restart();
  }
  last_time_ns_ = 0;
}

void HealthyHistory::DeclarePlan(uint32_t rank, uint32_t world_size,
                                 absl::Span<const v1::PlanEntry> plan) {
  evaluator_->DeclarePlan(rank, world_size, plan);
}

void HealthyHistory::RankGone(uint32_t rank) { evaluator_->RankGone(rank); }

void HealthyHistory::SetSilentRanks(std::vector<uint32_t> ranks) {
  evaluator_->SetSilentRanks(std::move(ranks));
}

void HealthyHistory::Tick(int64_t now_unix_ns) {
  CountBegun(evaluator_->Tick({.now_unix_ns = now_unix_ns}), last_step_);
}

// Only rules without a limit can fire here.
void HealthyHistory::CountBegun(const std::vector<model::AlertRow>& rows, int64_t step) {
  for (const model::AlertRow& row : rows) {
    if (row.alert().state() != v1::ALERT_STATE_FIRING || row.alert().firing_step() != step) {
      continue;
    }
    for (size_t i = 0; i < rules_->rules.size(); ++i) {
      if (row.alert().rule() == rules_->rules[i]->name) ++begun_[i];
    }
  }
}

void HealthyHistory::OnStep(const model::ClosedStep& step) {
  ++steps_;
  NoteTime(step);
  CountBegun(evaluator_->Evaluate(step), step.row.step);
  for (size_t i = 0; i < rules_->rules.size(); ++i) {
    const rules::Rule& rule = *rules_->rules[i];
    const rules::Limits* limits = rules::MovableLimits(rule.detector);
    if (limits == nullptr) continue;
    bool judged = false;
    for (const rules::JudgedSeries& seen : evaluator_->Judged(rule.name)) {
      if (!seen.measured.has_value()) continue;
      model::SeriesKey key;
      key.layer = seen.layer;
      key.unit = seen.unit;
      key.unit_id = seen.unit_id;
      key.unit_name = seen.unit_name;
      const auto [place, added] = places_[i].try_emplace(std::move(key), series_[i].size());
      if (added) series_[i].push_back({.layer = seen.layer, .statistic = {}});
      series_[i][place->second].statistic.Push(rule, step.row.step,
                                               ToScale(*limits, *seen.measured));
      ++samples_[i];
      judged = true;
    }
    if (!judged) continue;
    histories_[i].back().push_back(
        {step.row.step, static_cast<float>(RuleStatistic(rule, series_[i]))});
  }
}

// The same quorum as the rule's alert: of the units of a layer, then of the layers.
double HealthyHistory::RuleStatistic(const rules::Rule& rule,
                                     const std::vector<Series>& series) const {
  std::map<int32_t, std::vector<double>> by_layer;
  for (const Series& one : series) by_layer[one.layer].push_back(one.statistic.newest());
  std::vector<double> layers;
  for (auto& [layer, units] : by_layer) {
    const size_t wanted = rule.units.Of(units.size());
    layers.push_back(NthLargest(std::move(units), wanted));
  }
  const size_t wanted = rule.layers.Of(layers.size());
  return NthLargest(std::move(layers), wanted);
}

void HealthyHistory::EndRun() {
  evaluator_.reset();
  for (auto& places : places_) places.clear();
  for (std::vector<Series>& series : series_) series.clear();
  last_time_ns_ = 0;
}

void HealthyHistory::NoteTime(const model::ClosedStep& step) {
  const int64_t time_ns = step.row.time_unix_ns;
  if (time_ns > 0 && last_time_ns_ > 0 && step.row.step > last_step_ && time_ns > last_time_ns_ &&
      step_seconds_.size() < kTimesMax) {
    step_seconds_.push_back(static_cast<float>(1e-9 * static_cast<double>(time_ns - last_time_ns_) /
                                               static_cast<double>(step.row.step - last_step_)));
  }
  last_step_ = step.row.step;
  last_time_ns_ = time_ns;
}

std::optional<double> HealthyHistory::step_seconds() const {
  if (step_seconds_.empty()) return std::nullopt;
  std::vector<float> times = step_seconds_;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace foreshock::backtest
