// The median of a few values.
#pragma once

#include <algorithm>
#include <vector>

namespace foreshock {

// At least one value; of an even number the mean of the middle two. O(n).
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * *middle + 0.5 * *std::max_element(values.begin(), middle);
}

}  // namespace foreshock
