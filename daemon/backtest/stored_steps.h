// Steps of a run in a store, attempt by attempt, as they were judged.
//
// It reads the data directory (opened read_only beside a running daemon), not the query API: that
// one does not tell where an attempt resumed, and cuts long answers.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/backtest/steps.h"
#include "daemon/store/store.h"

namespace foreshock::backtest {

// Differs from what was judged live in three points: values that a late rank changed after its step
// had closed are the changed ones; of findings the store keeps a count and which ranks had no
// value; steps that an old launch still closed after a newer one had begun are included. Errors:
// NotFound, naming the runs there are; InvalidArgument for a run without a closed step; as Store.
// Cost: memory for a million points, and of more than 15 625 series for the points of 64 steps.
absl::Status ReadStoredSteps(const store::Store& store, const std::string& run,
                             const StepProgress& progress, StepSink* sink);

}  // namespace foreshock::backtest
