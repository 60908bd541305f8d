#include "daemon/app/backtester.h"

#include <sys/resource.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/backtest/stored_backtest.h"
#include "daemon/backtest/stored_explain.h"
#include "daemon/base/status_macros.h"

namespace foreshock::app {
namespace {

// Ingest comes first: this thread gets what is left of the cores.
constexpr int kNice = 10;
const backtest::BacktestLimits kLimits;

}  // namespace

absl::Status Backtester::Alone(const std::function<void()>& work) {
  if (busy_.exchange(true)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("another backtest runs; one at a time is allowed, and none takes longer than ",
                     absl::FormatDuration(kLimits.time_max), ": try again then"));
  }
  std::thread thread([&work] {
    setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone, on Linux
    work();
  });
  thread.join();
  busy_ = false;
  return absl::OkStatus();
}

absl::StatusOr<v1::BacktestRulesResponse> Backtester::Run(const v1::BacktestRulesRequest& request,
                                                          const std::function<bool()>& cancelled) {
  absl::StatusOr<v1::BacktestRulesResponse> response;
  FORESHOCK_RETURN_IF_ERROR(Alone([&] {
    response = backtest::BacktestStoredRun(*deps_.store, *deps_.in_force(), request, kLimits,
                                           [&] { return deps_.stopping() || cancelled(); });
  }));
  return response;
}

absl::StatusOr<v1::ExplainResponse> Backtester::Explain(const v1::ExplainRequest& request,
                                                        const std::function<bool()>& cancelled) {
  absl::StatusOr<v1::ExplainResponse> response;
  FORESHOCK_RETURN_IF_ERROR(Alone([&] {
    response = backtest::ExplainStoredRun(*deps_.store, deps_.in_force(), request, kLimits,
                                          [&] { return deps_.stopping() || cancelled(); });
  }));
  return response;
}

}  // namespace foreshock::app
