// What rules would have found in a run of a store, with an end to the work: for a daemon that is
// asked over the network (BacktestRules of QueryService).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/rules/rule_set.h"
#include "daemon/store/store.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::backtest {

struct BacktestLimits {
  int files_max = 64;
  size_t files_bytes_max = 256u << 10;  // names and texts together
  uint64_t subjects_max = 200'000;      // series that rules look at, once for each rule
  uint64_t judged_max = 20'000'000;     // values, once for each rule
  absl::Duration time_max = absl::Seconds(10);
  int alerts_max = 1'000;  // in the answer
};

// No file is opened; bands are those of `in_force`. `cancelled` is asked before each step. A run
// that takes longer than the limits allow is judged as far as they do, and the answer says so.
// Errors: InvalidArgument for files that are too large or have errors (every one of them, as
// name:line:column: what is allowed), for rules that look at too many series, and for a run without
// a step; NotFound naming the runs; Cancelled; as Store. Memory: the points of a block of steps (at
// most about 1 million) and what the rules remember.
absl::StatusOr<v1::BacktestRulesResponse> BacktestStoredRun(const store::Store& store,
                                                            const rules::RuleSet& in_force,
                                                            const v1::BacktestRulesRequest& request,
                                                            const BacktestLimits& limits,
                                                            const std::function<bool()>& cancelled);

}  // namespace foreshock::backtest
