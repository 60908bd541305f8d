// Reads stored steps back as they were judged, for a restart and for backtests.
//
//   FORESHOCK_RETURN_IF_ERROR(ReadClosedSteps(*store, "exp-42", {}, [&](const ClosedStep& step) {
//     evaluator.Judge(step);
//     return true;
//   }));
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "daemon/model/step.h"
#include "daemon/store/store.h"

namespace foreshock::store {

// Visits the steps of the range in step order, each with its row, samples and declared events.
// Undefined reasons and findings are not stored. `visit` returns false to stop. `wanted` says which
// series are read; unset: all. It needs memory for the rows of the range and the points of 1 024
// steps, and a seek per series and 1 024 steps. NotFound if there is no such run.
absl::Status ReadClosedSteps(const Store& store, const std::string& run, const StepRange& range,
                             const std::function<bool(const model::ClosedStep&)>& visit,
                             const std::function<bool(const model::SeriesKey&)>& wanted = nullptr);

}  // namespace foreshock::store
