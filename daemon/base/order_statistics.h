// Median and 10th percentile of a few values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace foreshock::base {

// At least one value; of an even number the mean of the middle two. O(n).
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * *middle + 0.5 * *std::max_element(values.begin(), middle);
}

// At least one value; linear between the closest ranks. O(n).
inline double Percentile10(std::vector<double> values) {
  const double rank = 0.1 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), at, values.end());
  const double low = *at;
  if (below + 1 == values.size()) return low;
  const double high = *std::min_element(at + 1, values.end());
  return low + (rank - static_cast<double>(below)) * (high - low);
}

}  // namespace foreshock::base
