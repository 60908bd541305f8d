#include "daemon/rules/trend.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "daemon/base/order_statistics.h"

namespace foreshock::rules {
namespace {

// 18 times the variance of rising minus falling pairs in random order, of n values or of a group of
// n equal ones.
double Variance18(double n) { return n * (n - 1) * (2 * n + 5); }

double Z(double rising_minus_falling, double variance18) {
  if (variance18 <= 0 || rising_minus_falling == 0) return 0;
  // A step of one towards zero, because a count jumps where a normal variable is smooth.
  const double nearer = rising_minus_falling - std::copysign(1.0, rising_minus_falling);
  return nearer / std::sqrt(variance18 / 18);
}

}  // namespace

double MannKendallZ(absl::Span<const TrendPoint> points) {
  int64_t sum = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      sum += (points[i].value > points[j].value) - (points[i].value < points[j].value);
    }
  }
  std::vector<double> sorted;
  for (const TrendPoint& point : points) sorted.push_back(point.value);
  std::sort(sorted.begin(), sorted.end());
  double variance18 = Variance18(static_cast<double>(sorted.size()));
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto last = std::upper_bound(first, sorted.end(), *first);
    variance18 -= Variance18(static_cast<double>(last - first));
    first = last;
  }
  return Z(static_cast<double>(sum), variance18);
}

double LargestMannKendallZ(int n) { return Z(0.5 * n * (n - 1), Variance18(n)); }

double TheilSenSlope(absl::Span<const TrendPoint> points) {
  std::vector<double> slopes;
  slopes.reserve(points.size() * (points.size() - 1) / 2);
  for (size_t i = 1; i < points.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      slopes.push_back((points[i].value - points[j].value) /
                       static_cast<double>(points[i].step - points[j].step));
    }
  }
  return base::Median(std::move(slopes));
}

}  // namespace foreshock::rules
