// What two curves have in common, by order statistics alone, so that outliers and the scale of the
// noise do not matter. Pure functions of finite numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "daemon/backtest/recorded_run.h"

namespace foreshock::backtest {

// The median of each point and the window / 2 before and after it; fewer at the ends, as many on
// both sides. `window` odd. O(n window).
Curve RunningMedian(const Curve& curve, size_t window);

// 1.4826 times the median of |value|: the standard deviation of normal noise around 0. Empty: 0.
double RobustDeviation(std::vector<double> values);

// Theil and Sen's slope of at most 1 000 of the points, evenly spaced; at least two points.
double SlopeOf(const Curve& curve);

// Spearman's rank correlation in [-1, 1], ties with their mean rank; unset if either is constant or
// there are fewer than two. Spans of one length. O(n log n).
std::optional<double> Spearman(absl::Span<const double> a, absl::Span<const double> b);

// Kendall's tau-b in [-1, 1]; unset as Spearman. O(n^2).
std::optional<double> KendallTau(absl::Span<const double> a, absl::Span<const double> b);

}  // namespace foreshock::backtest
