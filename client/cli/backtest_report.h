// A finished backtest for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "client/cli/backtest_runs.h"
#include "client/cli/cli.h"

namespace foreshock::cli {

// On stdout: which rule said what in which run, the rules summed up, the runs, a line per split.
void PrintBacktest(const rules::RuleSet& rules, const BacktestWork& work);

// docs/backtest.md describes it.
void PrintBacktestAsJson(const BacktestArguments& arguments, const rules::RuleSet& rules,
                         const BacktestWork& work);

}  // namespace foreshock::cli
