// What the rules in force see in a run of a store: how far each has judged it, and of one rule what
// it compared at a step and what it lacks to fire. By the evaluator that judges live.
//
//   v1::ExplainRequest request;   // run: "exp-42", rule: "loss_level", step: 400
//   FORESHOCK_ASSIGN_OR_RETURN(const v1::ExplainResponse seen,
//                              ExplainStoredRun(store, rules, request, {}, cancelled));
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/backtest/stored_backtest.h"
#include "daemon/rules/rule_set.h"
#include "daemon/store/store.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::backtest {

// Errors: NotFound naming the runs, or the rule with the one that is meant; OutOfRange for a step
// before the run's first; the rest as BacktestStoredRun.
absl::StatusOr<v1::ExplainResponse> ExplainStoredRun(const store::Store& store,
                                                     std::shared_ptr<const rules::RuleSet> rules,
                                                     const v1::ExplainRequest& request,
                                                     const BacktestLimits& limits,
                                                     const std::function<bool()>& cancelled);

}  // namespace foreshock::backtest
