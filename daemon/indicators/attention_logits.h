// AttentionLogits: how large logits grow and how sharply heads attend
// (docs/indicators/attention.md).
#pragma once

#include "absl/status/status.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// O(heads * rows * cols * min(rows, cols)). -inf masks a position; a head with +inf or NaN is a
// finding and adds nothing but its exact maximum.
absl::Status SummariseLogits(const v1::AttentionLogits& logits, const SummariseContext& context,
                             model::StepShards* out);

// attn.logits.*
void FinishLogits(const model::StepShards& merged, SampleWriter* writer);

}  // namespace foreshock::indicators
