// A picture of a backtest: the loss, the indicators of the rules that spoke, with baseline and
// limit, and when which alert fired; all over the same steps. gnuplot draws it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/backtest/backtest.h"
#include "daemon/backtest/verdict.h"

namespace foreshock {

struct PlotInput {
  std::string title;
  const RunResult* result = nullptr;
  const RunVerdict* verdict = nullptr;
  const RunTrace* trace = nullptr;
};

// Rules whose curves tell most about the run, best first, for Backtest's trace: the evidence of the
// first warning, else what fired, else the first rules of the set. More than are drawn, because not
// every rule has data.
std::vector<std::string> RulesToTrace(const RuleSet& rules, const RunResult& result,
                                      const RunVerdict& verdict);

// The gnuplot program that draws `input` into `file`, whose ending, .svg or .png, is the format.
std::string PlotScript(const PlotInput& input, const std::string& file);

// Whether `file` ends in .svg or .png: InvalidArgument if not.
absl::Status CheckPlotFile(const std::string& file);

// Runs gnuplot, which is not needed for anything else. Errors: FailedPrecondition, naming the
// package, when it is not installed; Internal with its first words when it fails (a file that
// cannot be written, for example).
absl::Status RunGnuplot(const std::string& script);

}  // namespace foreshock
