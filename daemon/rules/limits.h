// The limits of a detector, and one number against them.
//
//   const Limits limits{.side = Side::kAbove, .limit = 10, .clear = 8};
//   Compare(limits, 9);   // no breach, and not clear either
#pragma once

#include <cstdint>

#include "daemon/rules/baseline.h"
#include "daemon/rules/state_machine.h"

namespace foreshock::rules {

// Where values are abnormal.
enum class Side : uint8_t { kAbove, kBelow, kOutside };

struct Limits {
  // What is compared with the limit: the value itself, its ratio to the baseline, or a distance
  // whose healthy value is 0.
  enum class Scale : uint8_t { kValue, kRatio, kDistance };
  Scale scale = Scale::kValue;
  Side side = Side::kAbove;
  double limit = 0;
  double clear = 0;  // on the healthy side of the limit
};

Judgement Compare(const Limits& limits, double measured);

// Distance from the baseline's median in spreads. Without a spread it is 0 or infinite.
double InSpreads(double value, const Baseline& baseline);

}  // namespace foreshock::rules
