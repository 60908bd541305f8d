// Is one value abnormal? Pure functions of the value and its baseline.
#pragma once

#include <optional>

#include "daemon/rules/rule.h"

namespace foreshock {

// For kThreshold, kRelative and kRobustZ. Without the baseline a detector needs, and for a relative
// detector also with a baseline that is not positive, nothing is abnormal and nothing is clear.
Judgement Judge(const Detector& detector, double value, const std::optional<Baseline>& baseline);

}  // namespace foreshock
