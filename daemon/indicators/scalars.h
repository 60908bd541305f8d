// Scalars: train.<name> and what is derived from them (docs/indicators/training.md).
#pragma once

#include "absl/status/status.h"
#include "daemon/indicators/history.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

absl::Status SummariseScalars(const v1::ScalarBatch& batch, const SummariseContext& context,
                              model::StepShards* out);

// `history` is null when it must not be touched (evaluation, late shards): spike scores and the
// time per step are left out then.
void FinishScalars(const model::StepShards& merged, const model::StepRow& row, History* history,
                   SampleWriter* writer);

// train.nonfinite per name, and the findings themselves.
void FinishFindings(const model::StepShards& merged, SampleWriter* writer,
                    model::ClosedStep* closed);

}  // namespace foreshock::indicators
