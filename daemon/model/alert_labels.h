// The labels of an alert, and conditions on them, for routes, silences and lists.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/base/label_matcher.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::model {

// Whether every matcher matches. The labels of an alert are run, rule, severity, fault, indicator,
// attempt, layer, head, rank, unit, id, those of its rule, and those of its run. A label that the
// alert does not have is empty. An alert in several layers matches `layer=2` if one of them is 2,
// and `layer!=2` if none is.
bool MatchesAll(const std::vector<base::LabelMatcher>& matchers, const v1::Alert& alert);

// InvalidArgument for a matcher on a label that no alert can have; the message says which there
// are. `more`: labels of rules and runs.
absl::Status CheckAlertLabels(absl::Span<const base::LabelMatcher> matchers,
                              const std::set<std::string>& more);

}  // namespace foreshock::model
