// PolicyMismatch: trainer against rollout engine in RL post-training (docs/indicators/rl.md).
#pragma once

#include "absl/status/status.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// O(n). Pairs with a non-finite log-probability are findings and left out.
// Errors: InvalidArgument for log-probabilities above 0 beyond rounding, negative weights, or
// vectors of different length.
absl::Status SummarisePolicy(const v1::PolicyMismatch& policy, const SummariseContext& context,
                             model::StepShards* out);

// rl.*
void FinishPolicy(const model::StepShards& merged, SampleWriter* writer);

}  // namespace foreshock::indicators
