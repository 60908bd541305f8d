// Second half of the indicators: merged statistics of a closed step -> samples.
#pragma once

#include "daemon/indicators/history.h"
#include "daemon/model/shards.pb.h"
#include "daemon/model/step.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::indicators {

// Adds to `closed` (whose run and row are set) the samples, undefined reasons and findings of the
// merged statistics. `eval` puts "eval." before every id and leaves `history` alone. kFlagPartial
// and kFlagLate of the row are put on every sample.
// `history` holds what some indicators need of earlier steps (spike scores, dead experts); it must
// be fed in step order and is not touched when the row is late.
// Pure but for `history`. Samples come sorted by series key, each at most once, all finite.
void Finish(const model::StepShards& merged, const v1::ModelShape& model, bool eval,
            History* history, model::ClosedStep* closed);

}  // namespace foreshock::indicators
