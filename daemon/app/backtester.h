// Backtests and explanations for whoever may read: one at a time, each on a thread that gives way
// to everything else.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/rules/rule_set.h"
#include "daemon/store/store.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::app {

// Thread-safe.
class Backtester {
 public:
  struct Deps {
    const store::Store* store = nullptr;                                // outlives this
    std::function<std::shared_ptr<const rules::RuleSet>()> in_force{};  // whose bands may be named
    std::function<bool()> stopping{};                                   // the daemon is
  };

  explicit Backtester(Deps deps) : deps_(std::move(deps)) {}

  // Waits for the result. ResourceExhausted while another one runs; the rest as BacktestStoredRun.
  absl::StatusOr<v1::BacktestRulesResponse> Run(const v1::BacktestRulesRequest& request,
                                                const std::function<bool()>& cancelled);
  // The same for what the rules in force see in a stored run; as ExplainStoredRun.
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request,
                                              const std::function<bool()>& cancelled);

 private:
  // Calls `work` on a thread that gives way, unless another one runs.
  absl::Status Alone(const std::function<void()>& work);

  const Deps deps_;
  std::atomic<bool> busy_{false};
};

}  // namespace foreshock::app
