// Checks of what a rank sends against the contract in proto/foreshock/v1: pure functions over the
// messages. Every error is InvalidArgument (Unimplemented for a payload newer than this daemon) and
// says where, what was found and what is allowed:
//
//   summaries[3].router_gates.scores.shape (layer 7): found [128, 4]; allowed [tokens = 1..1048576,
//   experts = 8]
//
// NaN and Inf in model data are findings, not errors. A declared ModelShape bounds layers, heads
// and experts; what it leaves unknown is bounded by the constants in limits.h. Cost: O(fields);
// tensor data is read only for integers and log-probabilities.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/ingest/field.h"
#include "daemon/ingest/limits.h"
#include "daemon/ingest/name_table.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::ingest {

absl::Status ValidateHello(const v1::Hello& hello);
absl::Status ValidateGoodbye(const v1::Goodbye& goodbye);

// For requests that do not come over a stream.
absl::Status ValidateRunName(absl::string_view run);
absl::Status ValidateEvent(const v1::Event& event);

// Everything of a report but what is inside its summaries, and but its seq, which only the stream
// can judge.
absl::Status ValidateReport(const v1::Report& report, const IngestLimits& limits);

struct SummaryContext {
  const v1::ModelShape& model;  // as declared in the Hello
  int64_t step = 0;             // of the report
  size_t index = 0;             // in the report
};

// Takes the declarations in the summary into `names`; the valid ones stay even where the summary is
// refused, so that one bad value does not cost the later ones of the stream.
absl::Status ValidateSummary(const v1::Summary& summary, const SummaryContext& context,
                             NameTable* names);

namespace internal {  // one per payload; `field` is the payload's

absl::Status Scalars(const Field& field, const v1::ScalarBatch& batch, NameTable* names);
absl::Status TensorStats(const Field& field, const v1::TensorStatsBatch& batch,
                         const v1::ModelShape& model, NameTable* names);
absl::Status AttentionLogits(const Field& field, const v1::AttentionLogits& logits,
                             const v1::ModelShape& model);
absl::Status QkFactors(const Field& field, const v1::QkFactors& factors,
                       const v1::ModelShape& model);
absl::Status QkGram(const Field& field, const v1::QkGram& gram, const v1::ModelShape& model,
                    int64_t step);
absl::Status RouterGates(const Field& field, const v1::RouterGates& gates,
                         const v1::ModelShape& model);
absl::Status RouterLoad(const Field& field, const v1::RouterLoad& load,
                        const v1::ModelShape& model);
absl::Status RouterWeights(const Field& field, const v1::RouterWeights& weights,
                           const v1::ModelShape& model);
absl::Status RouterCoactivation(const Field& field, const v1::RouterCoactivation& coactivation,
                                const v1::ModelShape& model);
absl::Status Event(const Field& field, const v1::Event& event);
absl::Status PolicyMismatch(const Field& field, const v1::PolicyMismatch& mismatch);

// Shared by the payloads.
absl::Status CheckLayer(const Field& field, uint32_t layer, const v1::ModelShape& model);
absl::Status CheckHeads(const Field& field, const google::protobuf::RepeatedField<uint32_t>& heads,
                        const v1::ModelShape& model);
absl::Status CheckRows(const Field& field, const v1::RowRange& rows, const v1::ModelShape& model);
absl::Status CheckWeightDType(const Field& field, v1::DType dtype);

}  // namespace internal
}  // namespace foreshock::ingest
