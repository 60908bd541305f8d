#include "daemon/rules/detector.h"

#include <cmath>

namespace foreshock {

double InSpreads(double value, const Baseline& baseline) {
  const double distance = value - baseline.median;
  // A constant series at zero has no spread: any other value is infinitely far away.
  if (baseline.spread <= 0 && distance == 0) return 0;
  return distance / baseline.spread;
}

Judgement Compare(const Detector& detector, double x) {
  switch (detector.side) {
    case Detector::Side::kAbove:
      return {.breach = x > detector.limit, .clear = x <= detector.clear, .measured = x};
    case Detector::Side::kBelow:
      return {.breach = x < detector.limit, .clear = x >= detector.clear, .measured = x};
    case Detector::Side::kOutside:
      return {.breach = std::abs(x) > detector.limit,
              .clear = std::abs(x) <= detector.clear,
              .measured = x};
  }
  return {};
}

Judgement Judge(const Detector& detector, double value, const std::optional<Baseline>& baseline) {
  if (detector.kind == Detector::Kind::kThreshold) return Compare(detector, value);
  if (!baseline.has_value()) return {};
  if (detector.kind == Detector::Kind::kRobustZ) {
    return Compare(detector, InSpreads(value, *baseline));
  }
  if (baseline->median <= 0) return {};
  const double distance = value - baseline->median;
  Judgement judgement = Compare(detector, value / baseline->median);
  if (std::abs(distance) < detector.min_z * baseline->spread) {
    judgement.breach = false;
    judgement.measured = 1;  // no limit would be breached
  }
  return judgement;
}

}  // namespace foreshock
