// Rules as a Prometheus rule file over /metrics: what `foreshock rules export` writes.
#pragma once

#include <string>

#include "daemon/rules/promql.h"
#include "daemon/rules/rule_set.h"

namespace foreshock::rules {

// Two groups of rules. `foreshock_daemon`: one alert per rule and signature, firing while the
// daemon says so. `foreshock_central`: the rules that gauges can express, evaluated again by
// Prometheus; what cannot be is listed in comments with the reason. The label `evaluation` (daemon,
// central) tells them apart. `command` is what made it, for the first line. Equal inputs give equal
// text.
std::string PrometheusRules(const RuleSet& rules, const PromqlOptions& options,
                            absl::string_view command);

}  // namespace foreshock::rules
