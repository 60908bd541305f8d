// Steps of a capture, computed by the daemon's own code in this process: the checks of ingest, the
// statistics, the merge and the indicators. No sockets, no store, no threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/backtest/steps.h"

namespace foreshock::backtest {

// What a capture held beside its steps.
struct CaptureTotals {
  uint64_t reports = 0;
  uint64_t rejected = 0;             // payloads or reports that the daemon would have refused
  std::vector<std::string> reasons;  // the first few
};

// Clock: that of the recorded reports. A rank that stops reporting is waited for as long as it
// would have been then (the daemon's lateness), and what is open at the end closes as partial.
// Errors: as CaptureReader; DataLoss where the daemon would have ended a stream, naming it;
// InvalidArgument for a capture of more than one run or without a closed step.
// Cost: that of the daemon's ingest; memory: the open steps and one weight snapshot per rank.
absl::StatusOr<CaptureTotals> ReadCaptureSteps(const std::string& path,
                                               const StepProgress& progress, StepSink* sink);

}  // namespace foreshock::backtest
