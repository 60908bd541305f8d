#include "daemon/backtest/comparison.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/backtest/curve_stats.h"
#include "daemon/base/order_statistics.h"
#include "daemon/base/status_macros.h"

namespace foreshock::backtest {
namespace {

constexpr size_t kNoiseWindow = 31;
constexpr size_t kSmoothWindow = 5;

// Tokens so far at the end of each step of which they are known.
std::map<int64_t, int64_t> TokensSoFar(const RecordedRun& run) {
  std::map<int64_t, int64_t> sums;
  int64_t sum = 0;
  for (const auto& [step, tokens] : run.tokens) {
    sum += static_cast<int64_t>(tokens);
    sums[step] = sum;
  }
  return sums;
}

Curve OverTokens(const Curve& curve, const std::map<int64_t, int64_t>& tokens) {
  Curve over;
  for (const rules::TrendPoint& point : curve) {
    const auto found = tokens.find(point.step);
    if (found != tokens.end()) over.push_back({found->second, point.value});
  }
  return over;
}

struct Pair {
  int64_t x = 0;
  double baseline = 0;
  double run = 0;
};

std::vector<Pair> PairsBySteps(const Curve& baseline, const Curve& run) {
  std::vector<Pair> pairs;
  for (size_t i = 0, j = 0; i < baseline.size() && j < run.size();) {
    if (baseline[i].step < run[j].step) {
      ++i;
    } else if (run[j].step < baseline[i].step) {
      ++j;
    } else {
      pairs.push_back({run[j].step, baseline[i++].value, run[j].value});
      ++j;
    }
  }
  return pairs;
}

// The baseline between its neighbours, at the run's points.
std::vector<Pair> PairsByTokens(const Curve& baseline, const Curve& run) {
  std::vector<Pair> pairs;
  size_t i = 0;
  for (const rules::TrendPoint& point : run) {
    while (i < baseline.size() && baseline[i].step < point.step) ++i;
    if (i == baseline.size()) break;
    if (baseline[i].step == point.step) {
      pairs.push_back({point.step, baseline[i].value, point.value});
    } else if (i > 0) {
      const rules::TrendPoint& left = baseline[i - 1];
      const double part = static_cast<double>(point.step - left.step) /
                          static_cast<double>(baseline[i].step - left.step);
      pairs.push_back(
          {point.step, left.value + part * (baseline[i].value - left.value), point.value});
    }
  }
  return pairs;
}

SeriesDifference Judge(const model::SeriesKey& key, const std::vector<Pair>& pairs,
                       const CompareOptions& options) {
  SeriesDifference difference{.key = key};
  Curve baseline;
  Curve run;
  double largest = 0;
  for (const Pair& pair : pairs) {
    baseline.push_back({pair.x, pair.baseline});
    run.push_back({pair.x, pair.run});
    largest = std::max(largest, std::abs(pair.baseline));
  }
  const Curve middle = RunningMedian(baseline, kNoiseWindow);
  std::vector<double> noise;
  for (size_t i = 0; i < baseline.size(); ++i) {
    noise.push_back(baseline[i].value - middle[i].value);
  }
  difference.spread = RobustDeviation(std::move(noise));
  difference.baseline = RunningMedian(baseline, kSmoothWindow);
  difference.run = RunningMedian(run, kSmoothWindow);
  // Numbers are stored as float32: what differs by its last bits only is the same.
  const double limit =
      std::max(options.spreads * difference.spread,
               8 * static_cast<double>(std::numeric_limits<float>::epsilon()) * largest);
  std::vector<double> away;
  for (size_t i = 0; i < pairs.size(); ++i) {
    away.push_back(difference.run[i].value - difference.baseline[i].value);
  }
  size_t begin = 0;
  for (size_t i = 0, stretch = 0; i < away.size() && !difference.since.has_value(); ++i) {
    stretch = std::abs(away[i]) > limit ? stretch + 1 : 0;
    if (stretch < options.in_a_row) continue;
    begin = i + 1 - stretch;
    difference.since = pairs[begin].x;
  }
  const std::vector<double> rest(away.begin() + static_cast<std::ptrdiff_t>(begin), away.end());
  const auto over = std::count_if(rest.begin(), rest.end(),
                                  [limit](double one) { return std::abs(one) > limit; });
  if (difference.since.has_value()) {
    difference.share = static_cast<double>(over) / static_cast<double>(rest.size());
  }
  difference.difference = base::Median(rest);
  if (difference.spread > 0) difference.size = difference.difference / difference.spread;
  return difference;
}

// How far away, for the order of a list: a constant baseline has no measure and comes first.
double Weight(const SeriesDifference& series) {
  if (!series.since.has_value()) return 0;
  return series.size.has_value() ? std::abs(*series.size) : std::numeric_limits<double>::infinity();
}

std::vector<std::string> OnlyIn(const std::set<std::string>& all,
                                const std::set<std::string>& not_in) {
  std::vector<std::string> rest;
  std::set_difference(all.begin(), all.end(), not_in.begin(), not_in.end(),
                      std::back_inserter(rest));
  return rest;
}

std::set<std::string> IndicatorsOf(const RecordedRun& run) {
  std::set<std::string> indicators;
  for (const auto& [key, curve] : run.series) indicators.insert(key.indicator);
  return indicators;
}

}  // namespace

absl::StatusOr<Comparison> CompareRuns(const RecordedRun& baseline, const RecordedRun& run,
                                       const CompareOptions& options) {
  std::map<int64_t, int64_t> baseline_tokens;
  std::map<int64_t, int64_t> run_tokens;
  if (options.by_tokens) {
    for (const RecordedRun* one : {&baseline, &run}) {
      if (!one->tokens.empty()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the run ", one->name, " has no steps with tokens; compare it by steps"));
    }
    baseline_tokens = TokensSoFar(baseline);
    run_tokens = TokensSoFar(run);
  }
  Comparison comparison;
  comparison.only_baseline = OnlyIn(IndicatorsOf(baseline), IndicatorsOf(run));
  comparison.only_run = OnlyIn(IndicatorsOf(run), IndicatorsOf(baseline));
  size_t most = 0;
  for (const auto& [key, curve] : baseline.series) {
    const auto other = run.series.find(key);
    if (other == run.series.end()) continue;
    const std::vector<Pair> pairs = options.by_tokens
                                        ? PairsByTokens(OverTokens(curve, baseline_tokens),
                                                        OverTokens(other->second, run_tokens))
                                        : PairsBySteps(curve, other->second);
    most = std::max(most, pairs.size());
    if (pairs.size() < options.points_least) {
      ++comparison.too_short;
    } else {
      comparison.series.push_back(Judge(key, pairs, options));
    }
  }
  if (comparison.series.empty()) {
    const std::string runs = absl::StrCat("the runs ", baseline.name, " and ", run.name);
    return absl::InvalidArgumentError(
        comparison.too_short == 0
            ? absl::StrCat(runs,
                           " have no series of the same indicator, layer and unit: they "
                           "cannot be compared")
            : absl::StrCat(runs, " have at most ", most, " points of a series in common; at least ",
                           options.points_least, " are needed"));
  }
  for (size_t i = 0; i < comparison.series.size(); ++i) {
    const SeriesDifference& series = comparison.series[i];
    if (comparison.indicators.empty() ||
        comparison.indicators.back().indicator != series.key.indicator) {
      comparison.indicators.push_back({.indicator = series.key.indicator, .worst = i});
    }
    IndicatorDifference& indicator = comparison.indicators.back();
    ++indicator.series;
    if (!series.since.has_value()) continue;
    ++indicator.differing;
    indicator.since = std::min(indicator.since.value_or(*series.since), *series.since);
    if (Weight(series) > Weight(comparison.series[indicator.worst])) indicator.worst = i;
  }
  std::stable_sort(comparison.indicators.begin(), comparison.indicators.end(),
                   [&](const IndicatorDifference& a, const IndicatorDifference& b) {
                     return Weight(comparison.series[a.worst]) > Weight(comparison.series[b.worst]);
                   });
  return comparison;
}

}  // namespace foreshock::backtest
