#include "daemon/backtest/curve_stats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "daemon/base/order_statistics.h"

namespace foreshock::backtest {
namespace {

constexpr size_t kSlopePointsMax = 1000;

// Ranks from 1, of equal values their mean.
std::vector<double> RanksOf(absl::Span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (size_t i = first; i < last; ++i) {
      ranks[order[i]] = 0.5 * static_cast<double>(first + 1 + last);
    }
    first = last;
  }
  return ranks;
}

}  // namespace

Curve RunningMedian(const Curve& curve, size_t window) {
  Curve smooth = curve;
  std::vector<double> values;
  for (size_t i = 0; i < curve.size(); ++i) {
    const size_t half = std::min({window / 2, i, curve.size() - 1 - i});
    values.clear();
    for (size_t j = i - half; j <= i + half; ++j) values.push_back(curve[j].value);
    smooth[i].value = base::Median(values);
  }
  return smooth;
}

double RobustDeviation(std::vector<double> values) {
  if (values.empty()) return 0;
  for (double& value : values) value = std::abs(value);
  return 1.4826 * base::Median(std::move(values));
}

double SlopeOf(const Curve& curve) {
  if (curve.size() <= kSlopePointsMax) return rules::TheilSenSlope(curve);
  Curve some;
  for (size_t i = 0; i < kSlopePointsMax; ++i) {
    some.push_back(curve[i * (curve.size() - 1) / (kSlopePointsMax - 1)]);
  }
  return rules::TheilSenSlope(some);
}

std::optional<double> Spearman(absl::Span<const double> a, absl::Span<const double> b) {
  const std::vector<double> ranks_a = RanksOf(a);
  const std::vector<double> ranks_b = RanksOf(b);
  const double mean = 0.5 * static_cast<double>(a.size() + 1);
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    aa += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    bb += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  if (aa == 0 || bb == 0) return std::nullopt;
  return ab / std::sqrt(aa * bb);
}

std::optional<double> KendallTau(absl::Span<const double> a, absl::Span<const double> b) {
  int64_t sum = 0;
  int64_t untied_a = 0;
  int64_t untied_b = 0;
  for (size_t i = 1; i < a.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const int sign_a = (a[i] > a[j]) - (a[i] < a[j]);
      const int sign_b = (b[i] > b[j]) - (b[i] < b[j]);
      sum += sign_a * sign_b;
      untied_a += sign_a != 0;
      untied_b += sign_b != 0;
    }
  }
  if (untied_a == 0 || untied_b == 0) return std::nullopt;
  return static_cast<double>(sum) /
         std::sqrt(static_cast<double>(untied_a) * static_cast<double>(untied_b));
}

}  // namespace foreshock::backtest
