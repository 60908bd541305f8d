// Pictures: of a backtest the loss, the indicators of the rules that spoke, with baseline and
// limit, and when which alert fired, all over the same steps; of several runs their curves.
// daemon/base/gnuplot.h draws them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/backtest/backtest.h"
#include "daemon/backtest/recorded_run.h"
#include "daemon/backtest/verdict.h"

namespace foreshock::backtest {

struct PlotInput {
  std::string title;
  const RunResult* result = nullptr;
  const RunVerdict* verdict = nullptr;
  const RunTrace* trace = nullptr;
};

// Rules whose curves tell most about the run, best first, for Backtest's trace: the evidence of the
// first warning, else what fired, else the first rules of the set. More than are drawn, because not
// every rule has data.
std::vector<std::string> RulesToTrace(const rules::RuleSet& rules, const RunResult& result,
                                      const RunVerdict& verdict);

// The gnuplot program that draws `input` into `file`, whose ending, .svg or .png, is the format.
std::string PlotScript(const PlotInput& input, const std::string& file);

// Curves of several runs, a panel below the other.
struct CurvesPlot {
  struct Line {
    std::string name{};  // "" keeps it out of the key
    Curve points{};
    bool second = false;  // dashed, in the colour of the line before it
  };
  struct Mark {
    int64_t x = 0;
    std::string text{};
  };
  struct Panel {
    std::string title{};
    std::vector<Line> lines{};
    std::vector<Mark> marks{};
  };
  std::string title{};
  std::string x_label = "step";
  std::vector<Panel> panels{};
};

// As PlotScript.
std::string CurvesScript(const CurvesPlot& plot, const std::string& file);

}  // namespace foreshock::backtest
