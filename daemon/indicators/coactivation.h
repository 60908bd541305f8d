// RouterCoactivation: which experts are chosen together; checked and passed on to be stored.
#pragma once

#include "absl/status/status.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// Errors: InvalidArgument when the counts are no strict triangle of `experts` or one is negative.
absl::Status SummariseCoactivation(const v1::RouterCoactivation& coactivation,
                                   const SummariseContext& context, model::StepShards* out);

}  // namespace foreshock::indicators
