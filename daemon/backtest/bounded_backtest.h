// A backtest that ends when its limits are reached: for a daemon that is asked over the network.
//
//   BoundedBacktest backtest(rules, limits, cancelled);
//   FORESHOCK_RETURN_IF_ERROR(ReadStoredSteps(store, run, nullptr, &backtest));
//   if (!backtest.stopped().empty()) SayHowFar();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/backtest/backtest.h"
#include "daemon/backtest/stored_backtest.h"
#include "daemon/rules/rule.h"
#include "daemon/store/store.h"

namespace foreshock::backtest {

// InvalidArgument for rules that look at too many series of the run.
absl::Status CheckSubjects(const store::Store& store, const std::string& run,
                           const rules::CompiledRules& rules, const BacktestLimits& limits);

// Thread-compatible. `limits` and `cancelled` outlive it.
class BoundedBacktest : public StepSink {
 public:
  BoundedBacktest(std::shared_ptr<const rules::CompiledRules> rules, const BacktestLimits& limits,
                  const std::function<bool()>& cancelled);

  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override {
    backtest_.BeginAttempt(run, model, attempt);
  }
  void DeclarePlan(uint32_t rank, uint32_t world_size,
                   absl::Span<const v1::PlanEntry> plan) override {
    backtest_.DeclarePlan(rank, world_size, plan);
  }
  void RankGone(uint32_t rank) override { backtest_.RankGone(rank); }
  void SetSilentRanks(std::vector<uint32_t> ranks) override {
    backtest_.SetSilentRanks(std::move(ranks));
  }
  void Tick(int64_t now_unix_ns) override { backtest_.Tick(now_unix_ns); }
  void OnStep(const model::ClosedStep& step) override;

  bool done() const override { return gone_ || !stopped_.empty(); }
  bool Wants(const model::SeriesKey& series) const override {
    return judges_all_ || series.indicator == "train.loss" || backtest_.Uses(series);
  }

  bool gone() const { return gone_; }
  const std::string& stopped() const { return stopped_; }
  const Backtest& backtest() const { return backtest_; }
  RunResult Finish() { return backtest_.Finish(); }

 private:
  const BacktestLimits& limits_;
  const std::function<bool()>& cancelled_;
  const absl::flat_hash_map<std::string, uint64_t> uses_;  // rules by what they look at
  const bool judges_all_;
  const absl::Time deadline_;
  Backtest backtest_;
  uint64_t judged_ = 0;
  std::string stopped_;  // why it ended before the run did
  bool gone_ = false;    // nobody waits for it any more
};

}  // namespace foreshock::backtest
