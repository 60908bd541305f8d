#include "daemon/indicators/log_sketch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::indicators {
namespace {

constexpr int32_t kZeroBin = std::numeric_limits<int32_t>::min();
const double kLogRatio = std::log(1.04);

}  // namespace

int32_t LogSketch::BinOf(double value) {
  if (!(value >= 1e-300)) return kZeroBin;
  return static_cast<int32_t>(std::floor(std::log(value) / kLogRatio));
}

double LogSketch::Quantile(double q) const {
  const auto rank =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(q * static_cast<double>(total_))));
  uint64_t seen = 0;
  for (const auto& [bin, count] : bins_) {
    seen += count;
    if (seen >= rank) return bin == kZeroBin ? 0 : std::exp((bin + 0.5) * kLogRatio);
  }
  return 0;
}

}  // namespace foreshock::indicators
