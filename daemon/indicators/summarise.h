// First half of the indicators: one payload of one rank -> additive statistics, before the merge.
//
//   Snapshots snapshots({});
//   model::StepShards shards;
//   FORESHOCK_RETURN_IF_ERROR(
//       Summarise(summary, {.sender = sender, .names = names, .step = 40}, &snapshots, &shards));
//
// Pure but for the weight snapshots, which the caller owns. Sources: docs/indicators/.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "daemon/indicators/snapshots.h"
#include "daemon/model/shards.pb.h"
#include "daemon/model/stream_names.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::indicators {

// Who sent the payload. `model` may have unknown (zero) dimensions: what needs them is undefined
// with reason "unknown_shape".
struct Sender {
  uint32_t rank = 0;
  v1::Coordinates coordinates;
  v1::ModelShape model;
};

struct SummariseContext {
  const Sender& sender;
  const model::StreamNames& names;
  int64_t step = 0;
};

// Adds the statistics of `summary` to `out`. The payload must have passed ingest's validation
// (shapes agree with byte counts, ids are declared, sizes within limits). Non-finite elements
// become findings, undefined quantities become counted reasons; neither is an error.
//
// Errors: InvalidArgument when only the numbers show that the payload makes no sense (a negative
// softmax score in every row, scale factors that are no powers of two); nothing is added then.
// Cost: O(payload), but spectra: docs/indicators/attention.md.
// Thread rule: thread-compatible in `snapshots` and `out`.
absl::Status Summarise(const v1::Summary& summary, const SummariseContext& context,
                       Snapshots* snapshots, model::StepShards* out);

}  // namespace foreshock::indicators
