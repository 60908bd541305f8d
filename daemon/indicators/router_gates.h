// RouterGates: how sharply and how evenly tokens are routed (docs/indicators/router.md).
#pragma once

#include "absl/status/status.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// One pass, O(tokens * experts). A payload with a non-finite score is a finding and adds nothing.
// Errors: InvalidArgument when every row is rejected (negative score or sum 0) or a chosen index is
// not an expert.
absl::Status SummariseGates(const v1::RouterGates& gates, const SummariseContext& context,
                            model::StepShards* out);

// router.token_entropy ... router.bias_overlap; router.sampled_load.* for layers without
// RouterLoad.
void FinishGates(const model::StepShards& merged, SampleWriter* writer);

}  // namespace foreshock::indicators
