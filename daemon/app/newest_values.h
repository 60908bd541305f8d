// The newest stored values of a run, so that /metrics shows a run that goes on over a restart.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const std::vector<ClosedStep> steps,
//                              NewestValues(store, "exp-42", attempt, last_step));
//   for (const ClosedStep& step : steps) snapshots.Restore(step);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/model/step.h"
#include "daemon/store/store.h"

namespace foreshock::app {

// A value that is older than so many steps is left to the next step that has it.
inline constexpr int64_t kNewestValuesSteps = 32'768;

// Steps of the attempt in step order, each with the values that no later step replaces. The last
// one is `last_step`, the newest that has closed; its row is whole. Of the others only attempt and
// step are set. Errors: the store's.
absl::StatusOr<std::vector<model::ClosedStep>> NewestValues(const store::Store& store,
                                                            const std::string& run,
                                                            uint32_t attempt, int64_t last_step);

}  // namespace foreshock::app
