// Findings of a step that was read back. They are not stored themselves, but what they leave is: a
// count by name (train.nonfinite), and ranks that have no value at the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/model/step.h"

namespace foreshock::rules {

// Ranks that have sent a per-rank scalar in this attempt, by its name.
using RankScalars = absl::flat_hash_map<std::string, absl::flat_hash_set<int64_t>>;

std::vector<model::Finding> StoredFindings(const model::ClosedStep& closed,
                                           const RankScalars& rank_scalars);

}  // namespace foreshock::rules
