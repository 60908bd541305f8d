// QkFactors and QkGram: spectra of the change of the QK operator (docs/indicators/attention.md).
#pragma once

#include "absl/status/status.h"
#include "daemon/indicators/sample_writer.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// Subtracts the last snapshots of the same heads and keeps the new ones. A head without a snapshot
// is undefined ("no_base"), a head with a non-finite weight is a finding and loses its snapshot.
// Errors: InvalidArgument for a part of the rows, and when the projections do not fit each other.
absl::Status SummariseQkFactors(const v1::QkFactors& factors, const SummariseContext& context,
                                Snapshots* snapshots, model::StepShards* out);

// All rows: spectra at once. A part of them: un-scaled Grams that add.
// Errors: InvalidArgument when a scale is no power of two or a diagonal is negative.
absl::Status SummariseQkGram(const v1::QkGram& gram, const SummariseContext& context,
                             model::StepShards* out);

// attn.delta2.* ... attn.w_q.norm of every head. Sums over row shards are finished here when all
// rows are covered, else undefined ("rows_missing").
void FinishQk(const model::StepShards& merged, SampleWriter* writer);

}  // namespace foreshock::indicators
