// A recorded run through a backtest with the default pack: whole, from the file, and its judging
// alone. Items are series-steps.
//
//   backtest_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "daemon/backtest/backtest.h"
#include "daemon/backtest/capture_steps.h"
#include "daemon/base/check.h"

namespace foreshock::bench {
namespace {

constexpr char kCapture[] = "tests/data/captures/f_attn_201.fscap";

std::shared_ptr<const rules::RuleSet> Pack() {
  const std::vector<std::string> files = {"rules/default.yaml", "rules/signatures.yaml"};
  const auto rules = rules::LoadRules(files);
  FORESHOCK_CHECK(rules.ok());
  return *rules;
}

// Decompress, check, summarise (the spectra), merge, finish and judge.
void BM_Capture(benchmark::State& state) {
  const auto rules = Pack();
  int64_t samples = 0;
  for (auto _ : state) {
    backtest::Backtest backtest(rules);
    FORESHOCK_CHECK(backtest::ReadCaptureSteps(kCapture, nullptr, &backtest).ok());
    samples += static_cast<int64_t>(backtest.Finish().samples);
  }
  state.SetItemsProcessed(samples);
}
BENCHMARK(BM_Capture)->Unit(benchmark::kMillisecond);

// The steps of the capture, kept in memory.
class Kept final : public backtest::StepSink {
 public:
  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override {
    run_ = run;
    model_ = model;
    attempt_ = attempt;
  }
  void OnStep(const model::ClosedStep& step) override { steps_.push_back(step); }

  void Replay(backtest::StepSink* sink) const {
    sink->BeginAttempt(run_, model_, attempt_);
    for (const model::ClosedStep& step : steps_) sink->OnStep(step);
  }

 private:
  std::string run_;
  v1::ModelShape model_;
  rules::AttemptStart attempt_;
  std::vector<model::ClosedStep> steps_;
};

void BM_Judging(benchmark::State& state) {
  const auto rules = Pack();
  Kept kept;
  FORESHOCK_CHECK(backtest::ReadCaptureSteps(kCapture, nullptr, &kept).ok());
  int64_t samples = 0;
  for (auto _ : state) {
    backtest::Backtest backtest(rules);
    kept.Replay(&backtest);
    samples += static_cast<int64_t>(backtest.Finish().samples);
  }
  state.SetItemsProcessed(samples);
}
BENCHMARK(BM_Judging)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshock::bench
