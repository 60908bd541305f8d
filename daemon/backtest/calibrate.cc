#include "daemon/backtest/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/backtest/routes.h"
#include "daemon/backtest/tail.h"

namespace foreshock::backtest {
namespace {

// Beyond it a tail model is no more than a guess.
constexpr double kExtrapolationMax = 100;

// Four significant digits, to the side of fewer alerts.
double RoundedAway(const rules::Limits& limits, double scaled) {
  const double value = FromScale(limits, scaled);
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 3);
  const bool below = limits.side == rules::Side::kBelow;
  const double rounded = below ? std::floor(value / unit) : std::ceil(value / unit);
  // Through text, so that 9312 * 1e-4 is 0.9312.
  double result = value;
  if (!absl::SimpleAtod(absl::StrFormat("%.4g", rounded * unit), &result)) return value;
  return result;
}

// The limit of a relative detector is on its side of 1.
double OnItsSide(const rules::Limits& limits, double limit) {
  if (limits.scale != rules::Limits::Scale::kRatio) return limit;
  return limits.side == rules::Side::kBelow ? std::clamp(limit, 0.0, 1.0) : std::max(limit, 1.0);
}

// `clear` keeps its place between healthy (0 in the scale) and the limit, where there is such a
// place.
double ClearFor(const rules::Limits& limits, double limit) {
  if (limit == limits.limit) return limits.clear;
  if (limits.clear == limits.limit) return limit;
  const double before = ToScale(limits, limits.limit);
  const double after = ToScale(limits, limit);
  double clear = limits.clear;
  if (limits.scale != rules::Limits::Scale::kValue && before > 0) {
    clear = RoundedAway(limits, ToScale(limits, limits.clear) * after / before);
  }
  // Never beyond the limit.
  return ToScale(limits, clear) <= after ? clear : limit;
}

struct Study {
  Excursions excursions;
  std::optional<TailFit> fit;
  double rate_bound = std::numeric_limits<double>::infinity();  // at the present limit, a step
};

class Calibrator {
 public:
  Calibrator(const HealthyHistory& healthy, const CalibrationOptions& options)
      : healthy_(healthy), set_(healthy.rules()), options_(options) {}

  Calibration Run() {
    for (size_t i = 0; i < set_.rules.size(); ++i) Look(i);
    ChooseGuards();
    result_.alerts_per_step = options_.alerts_per_step;
    result_.guards = guards_.size();
    if (healthy_.steps() > 0) result_.rate_shown = 3 / static_cast<double>(healthy_.steps());
    for (const size_t guard : guards_) SetLimit(guard);
    return std::move(result_);
  }

 private:
  void Look(size_t index) {
    const rules::Rule& rule = *set_.rules[index];
    const rules::Limits* limits = rules::MovableLimits(rule.detector);
    RuleCalibration found;
    found.rule = rule.name;
    found.samples = healthy_.samples(index);
    Study study;
    if (limits == nullptr) {
      found.role = RuleCalibration::Role::kNoLimit;
      found.steps = static_cast<double>(healthy_.steps());
      found.excursions = healthy_.begun(index);
      if (healthy_.steps() > 0) {
        found.rate = 1e6 * static_cast<double>(found.excursions) / found.steps;
        found.rate_bound = 1e6 * PoissonUpper(found.excursions, options_.confidence) / found.steps;
      }
      found.reason = "has no limit to set";
    } else {
      found.limit_before = found.limit = limits->limit;
      found.clear_before = found.clear = limits->clear;
      study.excursions = FindExcursions(healthy_.of(index));
      found.steps = study.excursions.steps;
      found.excursions = study.excursions.peaks.size();
      double worst = -std::numeric_limits<double>::infinity();
      for (const ExcursionSeries& history : healthy_.of(index)) {
        for (const Worst& one : history) worst = std::max<double>(worst, one.value);
      }
      if (std::isfinite(worst)) found.worst = FromScale(*limits, worst);
      study.fit.emplace(study.excursions, options_.confidence);
      if (study.fit->usable()) {
        study.rate_bound = Rates(index, study, limits->limit, &found);
      }
      found.reason = "leads to no such alert unless a rule with a share of the budget fires too";
    }
    studies_.push_back(std::move(study));
    result_.rules.push_back(std::move(found));
  }

  // Sets the rates of `found` at a limit; returns the bound, a step. Within what was seen the
  // counts speak, beyond it the model.
  double Rates(size_t index, const Study& study, double limit, RuleCalibration* found) const {
    const double scaled = ToScale(*rules::MovableLimits(set_.rules[index]->detector), limit);
    double rate = study.fit->Rate(scaled);
    double bound = study.fit->RateBound(scaled);
    if (scaled < study.fit->threshold()) {
      const size_t seen = CountExcursions(healthy_.of(index), scaled);
      rate = static_cast<double>(seen) / study.excursions.steps;
      bound = PoissonUpper(seen, options_.confidence) / study.excursions.steps;
    }
    found->rate = 1e6 * rate;
    found->rate_bound = 1e6 * bound;
    return bound;
  }

  // Every route is kept by one of its rules: by one that keeps another route already, else by the
  // one that is the quietest as it is.
  void ChooseGuards() {
    for (const Route& route : RoutesTo(options_.severity, set_)) {
      const auto guards = [this](size_t rule) { return guards_.count(rule) > 0; };
      if (std::any_of(route.begin(), route.end(), guards)) continue;
      std::optional<size_t> best;
      for (const size_t rule : route) {
        if (rules::MovableLimits(set_.rules[rule]->detector) == nullptr) continue;
        if (!best.has_value() || studies_[rule].rate_bound < studies_[*best].rate_bound) {
          best = rule;
        }
      }
      if (best.has_value()) {
        guards_.insert(*best);
        continue;
      }
      std::vector<std::string> names;
      for (const size_t rule : route) names.push_back(set_.rules[rule]->name);
      result_.routes_unguarded.push_back(absl::StrJoin(names, " + "));
    }
  }

  void SetLimit(size_t index) {
    const rules::Limits& limits = *rules::MovableLimits(set_.rules[index]->detector);
    const Study& study = studies_[index];
    RuleCalibration& found = result_.rules[index];
    found.role = RuleCalibration::Role::kGuard;
    if (!study.fit->usable()) {
      found.reason = absl::StrFormat(
          "left as it is: %d independent %s in %.0f healthy steps, at least %d are needed",
          found.excursions, found.excursions == 1 ? "excursion" : "excursions", found.steps,
          TailFit::kPeaksMin);
      return;
    }
    const double share = options_.alerts_per_step / static_cast<double>(guards_.size());
    const double times = study.fit->Rate(study.fit->threshold()) / share;
    if (times > kExtrapolationMax) {
      found.reason = absl::StrFormat(
          "left as it is: its share of the budget is %.0f times rarer than what %.0f steps show, "
          "and %.0f times is as far as they can be trusted; use more history",
          times, found.steps, kExtrapolationMax);
      return;
    }
    const double wanted =
        times > 1 ? study.fit->LimitBound(share) : WithinHistory(index, study, share);
    double limit = OnItsSide(limits, RoundedAway(limits, wanted));
    const bool sharper = ToScale(limits, limit) < ToScale(limits, limits.limit);
    if (sharper && !options_.allow_sharper) limit = limits.limit;
    found.limit = limit;
    found.clear = ClearFor(limits, limit);
    const double bound = Rates(index, study, limit, &found);

    const std::string value = absl::StrFormat("%.4g", limit);
    found.reason =
        sharper && !options_.allow_sharper
            ? "left as it is: the budget would also allow a more sensitive limit"
            : absl::StrFormat("at %s at most %.3g alerts in 1e6 steps, with %.0f %% confidence",
                              value, 1e6 * bound, 100 * options_.confidence);
    if (bound > share * 1.01) {
      absl::StrAppend(&found.reason, "; this is over its share of the budget");
    }
  }

  // The lowest limit that the history itself shows to be rare enough.
  double WithinHistory(size_t index, const Study& study, double share) const {
    std::vector<double> levels;
    for (const ExcursionSeries& history : healthy_.of(index)) {
      for (const Worst& one : history) {
        if (std::isfinite(one.value)) levels.push_back(one.value);
      }
    }
    std::sort(levels.begin(), levels.end());
    const auto rare = [&](double level) {
      const size_t seen = CountExcursions(healthy_.of(index), level);
      return PoissonUpper(seen, options_.confidence) / study.excursions.steps <= share;
    };
    const auto found = std::partition_point(levels.begin(), levels.end(),
                                            [&](double level) { return !rare(level); });
    return found == levels.end() ? study.fit->LimitBound(share) : *found;
  }

  const HealthyHistory& healthy_;
  const rules::CompiledRules& set_;
  const CalibrationOptions& options_;
  std::vector<Study> studies_;
  std::set<size_t> guards_;
  Calibration result_;
};

}  // namespace

absl::StatusOr<Budget> ParseBudget(absl::string_view text) {
  const auto wrong = [text](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the budget \"", text, "\" is not understood: ", what,
        "; write for example \"1 page per 30 days\", \"2 warnings per week\" or \"1 per 1e6 "
        "steps\""));
  };
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  Budget budget;
  size_t at = 0;
  const auto number = [&](double* out) {
    double value = 0;
    if (at >= words.size() || !absl::SimpleAtod(words[at], &value)) return false;
    if (value <= 0 || !std::isfinite(value)) return false;
    *out = value;
    return ++at > 0;
  };
  if (!number(&budget.alerts)) return wrong("a positive number is expected first");
  if (at < words.size() && words[at] != "per") {
    const absl::string_view what = words[at++];
    if (what == "warning" || what == "warnings") {
      budget.severity = "warning";
    } else if (what == "alert" || what == "alerts") {
      budget.severity = "info";
    } else if (what != "page" && what != "pages") {
      return wrong(absl::StrCat("`", what, "` is none of page, warning, alert"));
    }
  }
  if (at >= words.size() || words[at++] != "per") return wrong("`per` is missing");
  double count = 1;
  number(&count);
  if (at + 1 != words.size()) return wrong("after `per` comes a number and a unit");
  absl::string_view unit = words[at];
  absl::ConsumeSuffix(&unit, "s");
  if (unit == "step") {
    budget.steps = count;
  } else if (unit == "hour") {
    budget.seconds = 3600 * count;
  } else if (unit == "day") {
    budget.seconds = 86400 * count;
  } else if (unit == "week") {
    budget.seconds = 7 * 86400 * count;
  } else {
    return wrong(absl::StrCat("`", words[at], "` is none of steps, hours, days, weeks"));
  }
  return budget;
}

Calibration Calibrate(const HealthyHistory& healthy, const CalibrationOptions& options) {
  return Calibrator(healthy, options).Run();
}

std::shared_ptr<const rules::CompiledRules> WithLimits(const rules::CompiledRules& rules,
                                                       const Calibration& calibration) {
  auto changed = std::make_shared<rules::CompiledRules>(rules);
  for (size_t i = 0; i < changed->rules.size(); ++i) {
    const RuleCalibration& found = calibration.rules[i];
    changed->rules[i] = WithLimits(*changed->rules[i], found.limit, found.clear);
  }
  return changed;
}

}  // namespace foreshock::backtest
