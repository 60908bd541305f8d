// Reads stored steps back as they were judged: for priming rules after a restart, for backtests.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "daemon/model/step.h"
#include "daemon/store/store.h"

namespace foreshock {

// Visits the steps of the range in step order, each with its row, samples and declared events
// (undefined reasons and findings are not stored). `visit` returns false to stop. `wanted` says
// which series are read; unset: all.
// Cost: memory for the rows of the range and the points of 1 024 steps; a seek per series and 1 024
// steps. NotFound if there is no such run.
absl::Status ReadClosedSteps(const Store& store, const std::string& run, const StepRange& range,
                             const std::function<bool(const ClosedStep&)>& visit,
                             const std::function<bool(const SeriesKey&)>& wanted = nullptr);

}  // namespace foreshock
