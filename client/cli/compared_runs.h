// Runs to be compared, from captures or from the daemon.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "daemon/backtest/recorded_run.h"

namespace foreshock::cli {

// Whether the argument names a capture: it ends in .fscap or .jsonl.
bool NamesCapture(const std::string& argument);

// A capture, judged by `rules` (nullptr: not judged), with a progress bar. `indicators` as those of
// RunRecorder. Errors name the file.
absl::StatusOr<backtest::RecordedRun> ReadComparedCapture(
    const std::string& path, std::shared_ptr<const rules::RuleSet> rules,
    const std::vector<std::string>& indicators);

// What fired in a run that the daemon has, and why. Errors: NotFound, as the daemon says it.
absl::StatusOr<backtest::RecordedRun> ReadStoredAlerts(Connection& daemon, const std::string& run);
// Adds its curves, and with `tokens` the tokens of its steps.
absl::Status ReadStoredCurves(Connection& daemon, const std::vector<std::string>& indicators,
                              bool tokens, backtest::RecordedRun* run);

}  // namespace foreshock::cli
