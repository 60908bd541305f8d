// TensorStats: moments of named tensors (docs/indicators/training.md).
#pragma once

#include "absl/status/status.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// Errors: InvalidArgument for moments that contradict each other (rms < |mean|, min > max).
absl::Status SummariseTensorStats(const v1::TensorStatsBatch& batch,
                                  const SummariseContext& context, model::StepShards* out);

// tensor.*; shards of one tensor from several ranks are weighted by their element counts.
void FinishTensorStats(const model::StepShards& merged, SampleWriter* writer);

}  // namespace foreshock::indicators
