// Which rules, firing together, can lead to an alert of a severity: for deciding whose limits must
// keep a budget of such alerts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/rules/rule.h"

namespace foreshock::backtest {

// Rules by their place in the set, sorted. When one of the rules of a route does not fire, nothing
// comes of it.
using Route = std::vector<size_t>;

// Every way to an alert of at least that severity: a rule that has it, or what a signature asks
// for. What holds a signature back (`score`, `for`, `wait`, ...) is not counted on. No route
// contains another one. A signature with more than 4 096 ways counts as if each of its rules were
// enough.
std::vector<Route> RoutesTo(absl::string_view severity, const rules::CompiledRules& rules);

}  // namespace foreshock::backtest
