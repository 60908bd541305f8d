// Scalars that rules look at and that nobody knows: probably a typo, of which a rule that never has
// a sample says nothing.
//
//   for (const std::string& doubt : UnknownScalars(rules, {"my_metric"})) Warn(doubt);
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/rules/rule_set.h"

namespace foreshock::rules {

// Names of scalars that trainers usually send and that the default rules look at: "loss",
// "grad_norm", ... A run may send others.
absl::Span<const absl::string_view> UsualScalars();

// Each as "file:line: ...", in the order of the rules. `sent`: scalars that runs have sent, without
// "train."; these and UsualScalars are known.
std::vector<std::string> UnknownScalars(const RuleSet& rules,
                                        const absl::flat_hash_set<std::string>& sent);

}  // namespace foreshock::rules
