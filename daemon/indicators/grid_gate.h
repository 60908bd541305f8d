// The gate against the number grid: snapshots in low precision carry rounding noise into the
// update. docs/indicators/attention.md 1.8.
#pragma once

#include <cmath>
#include <cstdint>

namespace foreshock::indicators {

// Above this predicted share of grid noise a point carries kFlagGrid and feeds no rule.
inline constexpr double kGridRatioMax = 0.02;

// nu = 0.0902 * 4^(1 - p): mean squared rounding error of one value over its square, averaged over
// a binade, for p significand bits: BF16 5.5e-6, FP16 8.6e-8, FP32 1.3e-15.
inline double GridNoise(uint32_t significand_bits) {
  return std::ldexp(0.0902, 2 * (1 - static_cast<int>(significand_bits)));
}

// Share of grid noise in a raw update: nu / relative_update^2.
inline double UpdateGridRatio(uint32_t significand_bits, double relative_update) {
  return GridNoise(significand_bits) / (relative_update * relative_update);
}

}  // namespace foreshock::indicators
