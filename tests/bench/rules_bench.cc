// The default pack over a large model: series-steps per second on one core.
//
//   rules_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "daemon/base/check.h"
#include "daemon/rules/evaluator.h"

namespace foreshock::bench {
namespace {

// What a step of a model of `layers` layers, 16 heads and 128 experts leaves: scalars and load at
// every step, spectra and gates with a snapshot.
model::ClosedStep Step(int64_t step, int layers, bool snapshot) {
  model::ClosedStep closed;
  closed.run = "bench";
  closed.row.attempt = 1;
  closed.row.step = step;
  closed.row.tokens = 4 << 20;
  const auto add = [&closed, step](const char* indicator, int layer, model::Unit unit, int64_t id,
                                   double level) {
    const double wave = 0.01 * std::sin(0.7 * static_cast<double>(step) + layer + 3.0 * id);
    closed.samples.push_back({{indicator, layer, unit, id, ""}, level * (1 + wave), 0});
  };
  for (int layer = 0; layer < layers && snapshot; ++layer) {
    for (int head = 0; head < 16; ++head) {
      closed.samples.push_back(
          {{"attn.delta.window_steps", layer, model::Unit::kHead, head, ""}, 50, 0});
      add("attn.delta2.entropy_ratio_l1", layer, model::Unit::kHead, head, 0.8);
      add("attn.delta2.relative_norm", layer, model::Unit::kHead, head, 0.05);
      add("attn.delta_k.entropy_ratio_l1", layer, model::Unit::kHead, head, 0.8);
      add("attn.delta_q.entropy_ratio_l1", layer, model::Unit::kHead, head, 0.8);
      add("attn.logits.max", layer, model::Unit::kHead, head, 20);
    }
    add("router.token_entropy_ratio", layer, model::Unit::kNone, 0, 0.7);
    add("router.weight_relative_norm", layer, model::Unit::kNone, 0, 0.01);
  }
  for (int layer = 0; layer < layers; ++layer) {
    add("load.entropy_ratio", layer, model::Unit::kNone, 0, 0.95);
    for (int expert = 0; expert < 128; ++expert) {
      add("load.share", layer, model::Unit::kExpert, expert, 1);
    }
  }
  for (const char* name : {"train.grad_norm", "train.grad_norm_k", "train.grad_norm_q"}) {
    add(name, model::kNoLayer, model::Unit::kNone, 0, 1);
  }
  add("train.loss", model::kNoLayer, model::Unit::kNone, 0, 2);
  closed.samples.push_back({{"train.lr", model::kNoLayer, model::Unit::kNone, 0, ""}, 1e-3, 0});
  return closed;
}

// The default pack over a run of such steps, one after the other.
class Run {
 public:
  Run(int layers, int64_t every) : every_(every) {
    const std::vector<std::string> files = {"rules/default.yaml", "rules/signatures.yaml"};
    auto rules = rules::LoadRules(files);
    FORESHOCK_CHECK(rules.ok());
    rules_ = *std::move(rules);
    // One cycle of steps, numbered as time goes on.
    for (int64_t step = 0; step < every; ++step) cycle_.push_back(Step(step, layers, step == 0));
    evaluator_ = NewEvaluator();
    evaluator_->BeginAttempt({.number = 1, .resume_step = std::nullopt});
    while (step_ < 600) Next();  // behind the warm-up, with full windows
  }

  // Returns how many series had a sample.
  size_t Next() {
    model::ClosedStep& closed = cycle_[static_cast<size_t>(step_ % every_)];
    closed.row.step = step_++;
    benchmark::DoNotOptimize(evaluator_->Evaluate(closed));
    return closed.samples.size();
  }

  std::unique_ptr<rules::Evaluator> NewEvaluator() const {
    return std::make_unique<rules::Evaluator>(rules_, "bench", v1::ModelShape());
  }
  rules::Evaluator& evaluator() { return *evaluator_; }

 private:
  const int64_t every_;
  std::shared_ptr<const rules::RuleSet> rules_;
  std::vector<model::ClosedStep> cycle_;
  std::unique_ptr<rules::Evaluator> evaluator_;
  int64_t step_ = 0;
};

// range(0): layers; range(1): a snapshot every so many steps.
void BM_DefaultPack(benchmark::State& state) {
  Run run(static_cast<int>(state.range(0)), state.range(1));
  int64_t judged = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < state.range(1); ++i) judged += static_cast<int64_t>(run.Next());
  }
  state.SetItemsProcessed(judged);  // series-steps
}
BENCHMARK(BM_DefaultPack)->Args({4, 10})->Args({48, 50})->Args({48, 1});

// What is remembered over a restart, written and read.
void BM_Remember(benchmark::State& state) {
  Run run(/*layers=*/48, /*every=*/1);
  int64_t bytes = 0;
  for (auto _ : state) bytes = static_cast<int64_t>(run.evaluator().Remember().size());
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Remember)->Unit(benchmark::kMillisecond);

void BM_Recall(benchmark::State& state) {
  Run run(/*layers=*/48, /*every=*/1);
  const std::string memory = run.evaluator().Remember();
  for (auto _ : state) FORESHOCK_CHECK(run.NewEvaluator()->Recall(memory));
}
BENCHMARK(BM_Recall)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshock::bench
