#include "daemon/detect/noise.h"

#include <algorithm>
#include <cmath>

namespace foreshock::detect {
namespace {

constexpr double kRecentRows = 32;
constexpr double kLastingRows = 1024;
constexpr double kGrowth = 4;  // the long memory weighs a value by kGrowth / (n + kGrowth)
constexpr double kOutlierSpreads = 6;
constexpr double kFewRows = 6;
constexpr int64_t kUnbounded = 4;  // so many first values are taken as they are

}  // namespace

void Noise::Add(double deviation) {
  const double spread = Spread();
  ++count_;
  const double n = static_cast<double>(count_);
  double off = deviation - mean_;
  if (count_ > kUnbounded) {
    off = std::clamp(off, -kOutlierSpreads * spread, kOutlierSpreads * spread);
  }
  mean_ += std::max(1 / n, 1 / kRecentRows) * off;
  recent_ += std::max(2 / (n + 1), 1 / kRecentRows) * (off * off - recent_);
  const double weight = std::max(kGrowth / (n + kGrowth), 1 / kLastingRows);
  lasting_ += weight * (off * off - lasting_);
  product_ += weight * (off * last_ - product_);
  last_ = off;
}

double Noise::Spread() const { return std::sqrt(std::max(recent_, lasting_)); }

double Noise::Widened() const {
  const double runs = lasting_ > 0 ? std::clamp(product_ / lasting_, 0.0, 1.0) : 0;
  return Spread() * (1 + runs) * (1 + kFewRows / std::max(1.0, static_cast<double>(count_)));
}

}  // namespace foreshock::detect
