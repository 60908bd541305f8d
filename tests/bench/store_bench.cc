// Append, scan and reopen of the store; points per second and bytes per point.
//
//   store_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
#include <cmath>
#include <memory>
#include <string>

#include "benchmark/benchmark.h"
#include "daemon/base/check.h"
#include "daemon/store/store.h"
#include "tests/support/temp_dir.h"

namespace foreshock {
namespace {

constexpr int kSeries = 500;  // as a model of 16 layers of heads and experts, thinned
constexpr int64_t kSteps = 1000;

// One closed step of values that wander as indicators do.
ClosedStep Step(int64_t step) {
  ClosedStep closed;
  closed.run = "bench";
  closed.row.attempt = 1;
  closed.row.step = step;
  closed.row.time_unix_ns = 1'800'000'000'000'000'000 + step * 250'000'000;
  closed.row.tokens = 4 << 20;
  closed.samples.reserve(kSeries);
  for (int i = 0; i < kSeries; ++i) {
    const double value = 2.5 + std::sin(0.01 * static_cast<double>(step) + i);
    closed.samples.push_back({{"attn.delta2.entropy", i / 32, Unit::kHead, i % 32, ""}, value, 0});
  }
  return closed;
}

StoreBatch Batch(int64_t step) {
  StoreBatch batch;
  model::AttemptRow attempt;
  attempt.set_number(1);
  attempt.set_first_step(0);
  attempt.set_last_step(step);
  batch.attempts.push_back({"bench", attempt});
  batch.steps.push_back(Step(step));
  return batch;
}

std::unique_ptr<Store> Open(const TempDir& directory) {
  auto store = OpenStore({.directory = directory.File("data")});
  FORESHOCK_CHECK(store.ok());
  return *std::move(store);
}

void Fill(Store* store) {
  for (int64_t step = 0; step < kSteps; ++step) FORESHOCK_CHECK(store->Write(Batch(step)).ok());
}

void BM_Append(benchmark::State& state) {
  TempDir directory;
  const auto store = Open(directory);
  int64_t step = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const StoreBatch batch = Batch(step++);
    state.ResumeTiming();
    FORESHOCK_CHECK(store->Write(batch).ok());
  }
  state.SetItemsProcessed(state.iterations() * kSeries);
  state.counters["bytes_per_point"] =
      static_cast<double>(store->Stats().bytes) / static_cast<double>(step * kSeries);
}
BENCHMARK(BM_Append)->Iterations(kSteps)->Unit(benchmark::kMicrosecond);

void BM_Scan(benchmark::State& state) {
  TempDir directory;
  const auto store = Open(directory);
  Fill(store.get());
  int64_t points = 0;
  int64_t head = 0;
  for (auto _ : state) {
    const SeriesKey series{"attn.delta2.entropy", static_cast<int32_t>(head / 32), Unit::kHead,
                           head % 32, ""};
    head = (head + 1) % kSeries;
    FORESHOCK_CHECK(store
                        ->Points("bench", {series}, {},
                                 [&points](size_t, const Point&) {
                                   ++points;
                                   return true;
                                 })
                        .ok());
  }
  state.SetItemsProcessed(points);
}
BENCHMARK(BM_Scan)->Unit(benchmark::kMicrosecond);

// As after kill -9: nothing but the log holds the last points.
void BM_Reopen(benchmark::State& state) {
  TempDir directory;
  auto store = Open(directory);
  Fill(store.get());
  for (auto _ : state) {
    store.reset();
    store = Open(directory);
  }
}
BENCHMARK(BM_Reopen)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshock
