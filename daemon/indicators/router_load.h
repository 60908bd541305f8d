// RouterLoad: how assignments spread over experts (docs/indicators/load.md).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/indicators/history.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

absl::Status SummariseLoad(const v1::RouterLoad& load, const SummariseContext& context,
                           model::StepShards* out);

// load.* and load.mass.*. `history` is null when it must not be touched: no dead_fraction then.
void FinishLoad(const model::StepShards& merged, const v1::ModelShape& model, int64_t step,
                History* history, SampleWriter* writer);

// Writes <family>.{max_violation, max_violation_ratio, min_violation, mean_violation, cv, entropy,
// entropy_ratio, effective_experts} of the shares of `counts` (all >= 0). top_k 0 is unknown: what
// needs it is undefined. False, with the family undefined, when the counts sum to 0. Cost O(E).
bool AddLoadStatistics(absl::string_view family, int32_t layer, absl::Span<const double> counts,
                       uint32_t top_k, uint32_t flags, SampleWriter* writer);

}  // namespace foreshock::indicators
