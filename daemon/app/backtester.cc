#include "daemon/app/backtester.h"

#include <sys/resource.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/backtest/stored_backtest.h"

namespace foreshock::app {
namespace {

// Ingest comes first: this thread gets what is left of the cores.
constexpr int kNice = 10;

}  // namespace

absl::StatusOr<v1::BacktestRulesResponse> Backtester::Run(const v1::BacktestRulesRequest& request,
                                                          const std::function<bool()>& cancelled) {
  const backtest::BacktestLimits limits;
  if (busy_.exchange(true)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("another backtest runs; one at a time is allowed, and none takes longer than ",
                     absl::FormatDuration(limits.time_max), ": try again then"));
  }
  absl::StatusOr<v1::BacktestRulesResponse> response;
  std::thread thread([&] {
    setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone, on Linux
    response = backtest::BacktestStoredRun(*deps_.store, *deps_.in_force(), request, limits,
                                           [&] { return deps_.stopping() || cancelled(); });
  });
  thread.join();
  busy_ = false;
  return response;
}

}  // namespace foreshock::app
