// Is one value abnormal? Pure functions of the value and its baseline.
#pragma once

#include <optional>

#include "daemon/rules/rule.h"

namespace foreshock {

// Distance from the baseline's median in spreads; where there is no spread, 0 or infinite.
double InSpreads(double value, const Baseline& baseline);

// `x`, what the detector measures, against its limits.
Judgement Compare(const Detector& detector, double x);

// For kThreshold, kRelative and kRobustZ. Without the baseline a detector needs, and for a relative
// detector also with a baseline that is not positive, nothing is abnormal and nothing is clear.
Judgement Judge(const Detector& detector, double value, const std::optional<Baseline>& baseline);

}  // namespace foreshock
