// What a calibration found, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "daemon/backtest/calibrate.h"

namespace foreshock::cli {

struct CalibrateReport {
  backtest::Calibration calibration;
  backtest::Budget budget;
  double confidence = 0.95;
  double step_seconds = 0;  // 0: neither known nor needed
  std::vector<std::string> runs;
  uint64_t steps = 0;
  size_t alerts_after = 0;  // of the budget's severity in these runs, with the new limits
  std::vector<std::string> written;
};

void PrintCalibration(const CalibrateReport& report);
void PrintCalibrationAsJson(const CalibrateReport& report);

}  // namespace foreshock::cli
