#include "daemon/detect/promise.h"

#include <algorithm>
#include <cmath>

namespace foreshock::detect {
namespace {

constexpr std::array<double, 4> kLambdas = {0.02, 0.1, 0.3, 0.7};
// Of the Wilson interval's upper end.
constexpr double kQuantile = 2;
constexpr double kPriorBlocks = 30;

}  // namespace

double Promise::p0() const {
  const double n = static_cast<double>(blocks_) + kPriorBlocks;
  const double p = static_cast<double>(held_) / n;
  const double z2 = kQuantile * kQuantile;
  const double upper =
      (p + z2 / (2 * n) + kQuantile * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n);
  return std::clamp(upper, 3 / n, 1.0);
}

double Promise::evidence() const {
  double sum = 0;
  for (const double m : sums_) sum += m;
  return sum / static_cast<double>(sums_.size());
}

bool Promise::Push(bool held) {
  if (reached_) {
    // The next page needs evidence of its own.
    if (!held) *this = Promise(level_, blocks_, held_);
    return reached_;
  }
  const double p = p0();
  for (size_t i = 0; i < sums_.size(); ++i) {
    sums_[i] = (sums_[i] + 1) * (1 + kLambdas[i] / p * ((held ? 1.0 : 0.0) - p));
  }
  ++blocks_;
  held_ += held ? 1 : 0;
  reached_ = evidence() >= level_;
  return reached_;
}

}  // namespace foreshock::detect
