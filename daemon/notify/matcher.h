// Conditions on the labels of an alert, for routes and silences.
#pragma once

#include <vector>

#include "daemon/base/label_matcher.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::notify {

// Whether every matcher matches. The labels of an alert are run, rule, severity, fault, indicator,
// attempt, layer, head, rank, unit, id, and those of its rule. A label that the alert does not have
// is empty. An alert in several layers matches `layer=2` if one of them is 2, and `layer!=2` if
// none is.
bool MatchesAll(const std::vector<base::LabelMatcher>& matchers, const v1::Alert& alert);

}  // namespace foreshock::notify
