#include "daemon/rules/limits.h"

#include <cmath>

namespace foreshock::rules {

Judgement Compare(const Limits& limits, double measured) {
  const double x = limits.side == Side::kOutside ? std::abs(measured) : measured;
  const bool below = limits.side == Side::kBelow;
  return {.breach = below ? x < limits.limit : x > limits.limit,
          .clear = below ? x >= limits.clear : x <= limits.clear,
          .measured = measured};
}

double InSpreads(double value, const Baseline& baseline) {
  const double distance = value - baseline.median;
  // A constant series at zero has no spread. Any other value is infinitely far away.
  if (baseline.spread <= 0 && distance == 0) return 0;
  return distance / baseline.spread;
}

}  // namespace foreshock::rules
