// How long a training step is held up by building and pushing one report, daemon present or not.
// Target: p99 < 20 us for up to 64 KiB of payload while there is room in the queue.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "foreshock/client.h"
#include "tests/unit/client/fake_daemon.h"

namespace foreshock {
namespace {

double Quantile(std::vector<double>& values, double q) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * (values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void PushReport(benchmark::State& state, bool daemon_present) {
  FakeDaemon daemon;
  // Takes everything and keeps nothing.
  daemon.OnStream([](FakeStream& stream) {
    stream.HelloAck(0);
    v1::PushRequest request;
    while (stream.call.Read(&request)) stream.Ack(request.report().seq());
    return grpc::Status::OK;
  });
  if (!daemon_present) daemon.Stop();
  ClientOptions options = {.target = daemon.target(), .run = "bench", .launch_id = "bench"};
  options.queue_bytes_max = size_t{1} << 30;
  options.queue_reports_max = 1u << 20;
  const std::unique_ptr<Client> client = *Client::Create(options);
  const uint32_t loss = *client->DeclareScalar({.name = "loss", .unit = "nats"});

  const auto payload_bytes = static_cast<uint32_t>(state.range(0));
  const std::vector<uint16_t> gates(payload_bytes / 2, 0x3f80);
  std::vector<double> micros;
  int64_t step = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    StepReport report(step++);
    report.Tokens(4096).Scalar(loss, 2.5);
    if (payload_bytes > 0) {
      report.RouterGates(0, BF16(gates.data(), {payload_bytes / 2, 1}), v1::SCORE_KIND_SOFTMAX);
    }
    const absl::Status status = client->Push(std::move(report).Take());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
    micros.push_back(took.count());
    // A training step is far longer than a call; this leaves the other thread its time.
    state.PauseTiming();
    if (daemon_present) (void)client->Flush(absl::Seconds(10));
    state.ResumeTiming();
  }
  state.counters["p50_us"] = Quantile(micros, 0.5);
  state.counters["p99_us"] = Quantile(micros, 0.99);
  state.counters["max_us"] = *std::max_element(micros.begin(), micros.end());
}

void BM_PushDaemonAbsent(benchmark::State& state) { PushReport(state, false); }
void BM_PushDaemonPresent(benchmark::State& state) { PushReport(state, true); }

// Bytes of gates beside one scalar. The iterations keep the absent daemon's queue under 1 GiB.
BENCHMARK(BM_PushDaemonAbsent)->Arg(0)->Arg(4 << 10)->Arg(64 << 10)->Iterations(10'000);
BENCHMARK(BM_PushDaemonPresent)->Arg(0)->Arg(4 << 10)->Arg(64 << 10)->Iterations(10'000);

}  // namespace
}  // namespace foreshock
