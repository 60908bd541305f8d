// RouterWeights: how alike the rows of a router are (docs/indicators/router.md).
#pragma once

#include "absl/status/status.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// Gram matrix of the rows, O(E^2 d), and the change since the last snapshot of the same rows.
absl::Status SummariseRouterWeights(const v1::RouterWeights& weights,
                                    const SummariseContext& context, Snapshots* snapshots,
                                    model::StepShards* out);

// Everything follows from the Gram matrix; relative error about eps * (row norm / centred norm)^2.
void FinishRouterWeights(const model::StepShards& merged, SampleWriter* writer);

}  // namespace foreshock::indicators
