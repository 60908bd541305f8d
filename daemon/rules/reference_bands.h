// The bands that rules judge by, for those who draw them.
//
//   v1::ListBandsResponse response = ReferenceBands(*rules, "train.loss");
#pragma once

#include <string>

#include "daemon/rules/rule_set.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::rules {

// One entry per series of the band of each rule with a reference baseline, in the order of the
// rules. `indicator` empty: of all indicators, without points.
v1::ListBandsResponse ReferenceBands(const RuleSet& rules, const std::string& indicator);

}  // namespace foreshock::rules
