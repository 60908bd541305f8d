// How long a training step is held up by building and pushing one report, daemon present or not.
// Target: p99 < 20 us for up to 64 KiB of payload while there is room in the queue.
//
// Wall time also counts what other programs on the machine take from the thread, so processor time
// of the calling thread stands beside it.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "foreshock/client.h"
#include "tests/unit/client/fake_daemon.h"

namespace foreshock::bench {
namespace {

double Micros(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Memory the process never touched costs a page fault per 4 KiB at its first use: 0.1 us on bare
// metal, up to 15 us on some virtual machines. A trainer's heap is warm; so is this one's.
void WarmHeap() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::vector<std::unique_ptr<char[]>> blocks;
  constexpr size_t kBlockBytes = 64 << 10;
  for (int i = 0; i < 2048; ++i) {
    blocks.push_back(std::make_unique<char[]>(kBlockBytes));
    benchmark::DoNotOptimize(blocks.back().get());
  }
}

double Quantile(std::vector<double>& values, double q) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * (values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void PushReport(benchmark::State& state, bool daemon_present) {
  WarmHeap();
  client_internal::FakeDaemon daemon;
  // Takes everything and keeps nothing.
  daemon.OnStream([](client_internal::FakeStream& stream) {
    stream.HelloAck(0);
    v1::PushRequest request;
    while (stream.call.Read(&request)) stream.Ack(request.report().seq());
    return grpc::Status::OK;
  });
  if (!daemon_present) daemon.Stop();
  ClientOptions options = {.target = daemon.target(), .run = "bench", .launch_id = "bench"};
  const std::unique_ptr<Client> client = *Client::Create(options);
  const uint32_t loss = *client->DeclareScalar({.name = "loss", .unit = "nats"});

  const auto payload_bytes = static_cast<uint32_t>(state.range(0));
  const std::vector<uint16_t> gates(payload_bytes / 2, 0x3f80);
  std::vector<double> wall_us;
  std::vector<double> cpu_us;
  int64_t step = 0;
  for (auto _ : state) {
    const double wall_begin = Micros(CLOCK_MONOTONIC);
    const double cpu_begin = Micros(CLOCK_THREAD_CPUTIME_ID);
    StepReport report(step++);
    report.Tokens(4096).Scalar(loss, 2.5);
    if (payload_bytes > 0) {
      report.RouterGates(0, BF16(gates.data(), {payload_bytes / 2, 1}), v1::SCORE_KIND_SOFTMAX);
    }
    const absl::Status status = client->Push(std::move(report).Take());
    cpu_us.push_back(Micros(CLOCK_THREAD_CPUTIME_ID) - cpu_begin);
    wall_us.push_back(Micros(CLOCK_MONOTONIC) - wall_begin);
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
    // A training step is far longer than a call; this leaves the other thread its time.
    state.PauseTiming();
    if (daemon_present) (void)client->Flush(absl::Seconds(10));
    state.ResumeTiming();
  }
  state.counters["wall_p50_us"] = Quantile(wall_us, 0.5);
  state.counters["wall_p99_us"] = Quantile(wall_us, 0.99);
  state.counters["cpu_p50_us"] = Quantile(cpu_us, 0.5);
  state.counters["cpu_p99_us"] = Quantile(cpu_us, 0.99);
}

void BM_PushDaemonAbsent(benchmark::State& state) { PushReport(state, false); }
void BM_PushDaemonPresent(benchmark::State& state) { PushReport(state, true); }

// Bytes of gates beside one scalar. The iterations fit into the default queue of 64 MiB.
BENCHMARK(BM_PushDaemonAbsent)->Arg(0)->Arg(4 << 10)->Iterations(10'000);
BENCHMARK(BM_PushDaemonAbsent)->Arg(64 << 10)->Iterations(1'000);
BENCHMARK(BM_PushDaemonPresent)->Arg(0)->Arg(4 << 10)->Arg(64 << 10)->Iterations(10'000);

}  // namespace
}  // namespace foreshock::bench
