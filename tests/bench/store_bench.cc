// Append with folds, scan, plots and reopens of the store; points per second and bytes per point.
//
//   store_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "benchmark/benchmark.h"
#include "daemon/base/check.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/directory.h"
#include "daemon/store/store.h"
#include "tests/support/temp_dir.h"

namespace foreshock::bench {
namespace {

constexpr int kSeries = 500;  // as a model of 16 layers of heads and experts, thinned
constexpr int64_t kSteps = 1000;
constexpr int64_t kPlotSteps = 1'000'000;
constexpr int kManySeries = 100'000;

model::SeriesKey NthHead(int n) {
  return {"attn.delta2.entropy", n / 32, model::Unit::kHead, n % 32, ""};
}

// One closed step of values that wander as indicators do.
model::ClosedStep Step(int64_t step, int series) {
  model::ClosedStep closed;
  closed.run = "bench";
  closed.row.attempt = 1;
  closed.row.step = step;
  closed.row.time_unix_ns = 1'800'000'000'000'000'000 + step * 250'000'000;
  closed.row.tokens = 4 << 20;
  closed.samples.reserve(series);
  uint64_t noise = 0x9e3779b97f4a7c15 * static_cast<uint64_t>(step + 1);
  for (int i = 0; i < series; ++i) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    const double value = 2.5 + std::sin(0.01 * static_cast<double>(step) + i) +
                         0x1p-40 * static_cast<double>(noise >> 32);
    closed.samples.push_back({NthHead(i), value, 0});
  }
  return closed;
}

store::StoreBatch Batch(int64_t first, int64_t last, int series) {
  store::StoreBatch batch;
  model::AttemptRow attempt;
  attempt.set_number(1);
  attempt.set_first_step(0);
  attempt.set_last_step(last);
  batch.attempts.push_back({"bench", attempt});
  for (int64_t step = first; step <= last; ++step) batch.steps.push_back(Step(step, series));
  return batch;
}

store::StoreOptions Options(const support::TempDir& directory) {
  return {.directory = directory.File("data")};
}

std::unique_ptr<store::Store> Open(const support::TempDir& directory) {
  auto store = store::OpenStore(Options(directory));
  FORESHOCK_CHECK(store.ok());
  return *std::move(store);
}

// As the daemon writes: a step a batch.
void Fill(store::Store* store) {
  for (int64_t step = 0; step < kSteps; ++step) {
    FORESHOCK_CHECK(store->Write(Batch(step, step, kSeries)).ok());
  }
}

// The bytes of a closed store once the log is in tables and the tables are compacted.
uint64_t CompactedBytes(const support::TempDir& directory) {
  {
    const auto database =
        store::Database::Open(Options(directory), nullptr, std::make_shared<store::DamageWatch>());
    FORESHOCK_CHECK(database.ok());
    for (const store::Family family : store::kAllFamilies) {
      rocksdb::ColumnFamilyHandle* handle = (*database)->family(family);
      FORESHOCK_CHECK((*database)->db()->Flush({}, handle).ok());
      rocksdb::CompactRangeOptions options;
      options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
      FORESHOCK_CHECK((*database)->db()->CompactRange(options, handle, nullptr, nullptr).ok());
    }
  }
  const auto opened =
      store::Database::Open(Options(directory), nullptr,
                            std::make_shared<store::DamageWatch>());  // drops old files
  FORESHOCK_CHECK(opened.ok());
  return store::DirectoryBytes(Options(directory).directory);
}

// A run from its first step to its last, and the folds of all its points: CPU of all threads.
void BM_AppendAndFold(benchmark::State& state) {
  std::vector<store::StoreBatch> batches;
  for (int64_t step = 0; step < kSteps; ++step) batches.push_back(Batch(step, step, kSeries));
  uint64_t bytes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    support::TempDir directory;
    auto store = Open(directory);
    state.ResumeTiming();
    for (const store::StoreBatch& batch : batches) FORESHOCK_CHECK(store->Write(batch).ok());
    FORESHOCK_CHECK(store->Fold("bench").ok());
    state.PauseTiming();
    store.reset();
    bytes = CompactedBytes(directory);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * kSeries * kSteps);
  state.counters["bytes_per_point"] = static_cast<double>(bytes) / (kSeries * kSteps);
}
BENCHMARK(BM_AppendAndFold)->Iterations(2)->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);

// What a write costs its caller; folds go on beside it.
void BM_Append(benchmark::State& state) {
  support::TempDir directory;
  const auto store = Open(directory);
  int64_t step = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const store::StoreBatch batch = Batch(step, step, kSeries);
    ++step;
    state.ResumeTiming();
    FORESHOCK_CHECK(store->Write(batch).ok());
  }
  state.SetItemsProcessed(state.iterations() * kSeries);
}
BENCHMARK(BM_Append)->Iterations(kSteps)->Unit(benchmark::kMicrosecond);

// One series after the other, from chunks (1) or from heads (0).
void BM_Scan(benchmark::State& state) {
  support::TempDir directory;
  const auto store = Open(directory);
  Fill(store.get());
  if (state.range(0) == 1) FORESHOCK_CHECK(store->Fold("bench").ok());
  std::vector<model::SeriesKey> series;
  for (int n = 0; n < kSeries; ++n) series.push_back(NthHead(n));
  int64_t points = 0;
  for (auto _ : state) {
    FORESHOCK_CHECK(store
                        ->Points("bench", series, {},
                                 [&points](size_t, const model::Point&) {
                                   ++points;
                                   return true;
                                 })
                        .ok());
  }
  state.SetItemsProcessed(points);
}
BENCHMARK(BM_Scan)->ArgName("chunks")->Arg(1)->Arg(0)->Unit(benchmark::kMillisecond);

// About 1 000 buckets of a series of 10^6 steps, the first read after a reopen.
void BM_PlotAfterReopen(benchmark::State& state) {
  support::TempDir directory;
  auto store = Open(directory);
  constexpr int64_t kAtOnce = 1000;
  for (int64_t step = 0; step < kPlotSteps; step += kAtOnce) {
    FORESHOCK_CHECK(store->Write(Batch(step, step + kAtOnce - 1, 4)).ok());
  }
  FORESHOCK_CHECK(store->Fold("bench").ok());
  int64_t buckets = 0;
  for (auto _ : state) {
    state.PauseTiming();
    store.reset();
    store = Open(directory);  // with an empty block cache
    buckets = 0;
    state.ResumeTiming();
    FORESHOCK_CHECK(store
                        ->Buckets("bench", {NthHead(2)}, {}, 1024,
                                  [&buckets](size_t, const store::Bucket&) {
                                    ++buckets;
                                    return true;
                                  })
                        .ok());
  }
  FORESHOCK_CHECK(buckets == (kPlotSteps + 1023) / 1024);
}
BENCHMARK(BM_PlotAfterReopen)->Iterations(10)->Unit(benchmark::kMillisecond);

// Opens a store that is closed anew with `fill` before each round: as after kill -9, nothing but
// the log holds the last points.
void TimeOpen(benchmark::State& state, absl::FunctionRef<void(store::Store*)> fill) {
  for (auto _ : state) {
    state.PauseTiming();
    const support::TempDir directory;
    fill(Open(directory).get());
    state.ResumeTiming();
    std::unique_ptr<store::Store> store = Open(directory);
    state.PauseTiming();
    store.reset();
    state.ResumeTiming();
  }
}

void BM_Reopen(benchmark::State& state) { TimeOpen(state, Fill); }
BENCHMARK(BM_Reopen)->Iterations(3)->Unit(benchmark::kMillisecond);

// 100 000 series, 10 steps of them folded and 10 in the log.
void BM_ReopenManySeries(benchmark::State& state) {
  TimeOpen(state, [](store::Store* store) {
    for (int64_t step = 0; step < 20; ++step) {
      FORESHOCK_CHECK(store->Write(Batch(step, step, kManySeries)).ok());
      if (step == 9) FORESHOCK_CHECK(store->Fold("bench").ok());
    }
  });
}
BENCHMARK(BM_ReopenManySeries)->Iterations(3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshock::bench
