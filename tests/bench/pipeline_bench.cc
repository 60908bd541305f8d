// What the writer's thread pays for ranks that come, go and stand still, and how long one run's ack
// waits for another run's backlog. The store is in memory, so that no disk is measured.
//
//   pipeline_bench --benchmark_filter=Goodbyes
#include <algorithm>
#include <atomic>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "benchmark/benchmark.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "daemon/pipeline/pipeline.h"
#include "tests/support/memory_store.h"

namespace foreshock::bench {
namespace {

class Deaf final : public pipeline::PipelineListener {
 public:
  void OnStep(const model::ClosedStep&) override {}
  void OnAlert(const model::AlertRow&, bool) override {}
  void OnRun(const std::string&, const std::vector<pipeline::AttemptStatus>&) override {}
  void OnRunDeleted(const std::string&) override {}
  void OnRound() override {}
};

// The newest ack of a stream.
struct Acked {
  std::atomic<uint64_t> seq{0};
  std::atomic<uint64_t> acks{0};

  ingest::PushStream::AckFn Take() {
    return [this](const v1::Ack& ack) {
      seq = std::max<uint64_t>(seq, ack.seq());
      ++acks;
    };
  }
};

// A job whose ranks are connected.
class Job {
 public:
  Job(pipeline::Pipeline* pipeline, std::string run, uint32_t ranks)
      : pipeline_(pipeline), run_(std::move(run)), streams_(ranks), acked_(ranks) {}

  // As ingest does: four threads wait for the writer.
  void Greet(const std::string& launch) {
    std::atomic<uint32_t> next{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (uint32_t rank = next++; rank < streams_.size(); rank = next++) {
          streams_[rank] = Open(launch, rank);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Returns when all of them are confirmed.
  void SayGoodbye() {
    v1::Goodbye goodbye;
    goodbye.set_outcome(v1::OUTCOME_FINISHED);
    std::vector<uint64_t> acks;
    for (const Acked& acked : acked_) acks.push_back(acked.acks);
    for (auto& stream : streams_) {
      while (!stream->Submit(goodbye).ok()) std::this_thread::yield();
    }
    for (size_t rank = 0; rank < streams_.size(); ++rank) {
      while (acked_[rank].acks == acks[rank]) std::this_thread::yield();
    }
  }

  void HangUp() {
    for (auto& stream : streams_) stream.reset();
  }

  ingest::PushStream* stream(uint32_t rank) { return streams_[rank].get(); }
  uint64_t acked(uint32_t rank) const { return acked_[rank].seq; }

 private:
  std::unique_ptr<ingest::PushStream> Open(const std::string& launch, uint32_t rank) {
    v1::Hello hello;
    hello.set_run(run_);
    hello.set_launch_id(launch);
    hello.set_client_instance(launch + std::to_string(rank));
    hello.set_rank(rank);
    hello.set_world_size(static_cast<uint32_t>(streams_.size()));
    auto stream = pipeline_->Open(hello, acked_[rank].Take(), [](const absl::Status&) {});
    FORESHOCK_CHECK(stream.ok());
    return *std::move(stream);
  }

  pipeline::Pipeline* const pipeline_;
  const std::string run_;
  std::vector<std::unique_ptr<ingest::PushStream>> streams_;
  std::vector<Acked> acked_;
};

class Daemon {
 public:
  Daemon() {
    const auto rules = rules::LoadRules({});
    FORESHOCK_CHECK(rules.ok());
    pipeline_ = std::make_unique<pipeline::Pipeline>(
        pipeline::Pipeline::Options(),
        pipeline::Pipeline::Deps{
            .store = store_.get(), .clock = &clock_, .rules = *rules, .listener = &deaf_});
    FORESHOCK_CHECK(pipeline_->Start().ok());
  }
  pipeline::Pipeline* pipeline() { return pipeline_.get(); }

 private:
  const base::SystemClock clock_;
  const std::unique_ptr<store::Store> store_ = support::NewMemoryStore();
  Deaf deaf_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
};

// range(0): ranks.
void BM_Hellos(benchmark::State& state) {
  for (auto _ : state) {
    Daemon daemon;
    Job job(daemon.pipeline(), "bench", static_cast<uint32_t>(state.range(0)));
    const absl::Time begun = base::SteadyNow();
    job.Greet("a");
    state.SetIterationTime(absl::ToDoubleSeconds(base::SteadyNow() - begun));
    job.HangUp();
  }
}
BENCHMARK(BM_Hellos)->Arg(1024)->Arg(16384)->UseManualTime()->Iterations(1)->Unit(
    benchmark::kMillisecond);

void BM_Goodbyes(benchmark::State& state) {
  for (auto _ : state) {
    Daemon daemon;
    Job job(daemon.pipeline(), "bench", static_cast<uint32_t>(state.range(0)));
    job.Greet("a");
    const absl::Time begun = base::SteadyNow();
    job.SayGoodbye();
    state.SetIterationTime(absl::ToDoubleSeconds(base::SteadyNow() - begun));
    job.HangUp();
  }
}
BENCHMARK(BM_Goodbyes)
    ->Arg(1024)
    ->Arg(16384)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// CPU of one idle second of the whole process. range(0): ranks, range(1): launches that ended.
void BM_Idle(benchmark::State& state) {
  constexpr int kSeconds = 3;
  for (auto _ : state) {
    Daemon daemon;
    Job job(daemon.pipeline(), "bench", static_cast<uint32_t>(state.range(0)));
    for (int64_t launch = 0; launch < state.range(1); ++launch) {
      job.Greet(std::to_string(launch));
      job.SayGoodbye();
      job.HangUp();
    }
    absl::SleepFor(absl::Seconds(2));
    const std::clock_t begun = std::clock();
    absl::SleepFor(absl::Seconds(kSeconds));
    state.SetIterationTime(static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC / kSeconds);
  }
}
BENCHMARK(BM_Idle)
    ->Args({16384, 1})
    ->Args({4096, 8})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);

// A rank sends 500 reports of about 130 KB each, as fast as it is let; a rank of another run sends
// a small one every 10 ms.
void BM_WorstAckBesideABacklog(benchmark::State& state) {
  constexpr uint64_t kReports = 500;
  constexpr uint32_t kTensors = 2000;
  model::StreamNames names;
  v1::Report large;
  v1::TensorStatsBatch* batch = large.add_summaries()->mutable_tensor_stats();
  for (uint32_t id = 0; id < kTensors; ++id) {
    names.tensors[id].set_id(id);
    names.tensors[id].set_name("act/block." + std::to_string(id));
    v1::TensorStats* stats = batch->add_stats();
    stats->set_id(id);
    stats->set_count(1 << 20);
    stats->set_min(-1.0 - id);
    stats->set_max(1.0 + id);
    stats->set_mean(0.5);
    stats->set_rms(0.75 + id);
    stats->set_stable_rank(3.25);
    stats->set_input_rms(0.5);
  }
  large.set_last_of_step(true);
  state.counters["report_bytes"] = static_cast<double>(large.ByteSizeLong());
  for (auto _ : state) {
    Daemon daemon;
    Job late(daemon.pipeline(), "late", 1);
    Job other(daemon.pipeline(), "other", 1);
    late.Greet("a");
    other.Greet("a");
    std::thread backlog([&] {
      for (uint64_t seq = 1; seq <= kReports; ++seq) {
        large.set_seq(seq);
        large.set_step(static_cast<int64_t>(seq));
        while (!late.stream(0)->Submit(large, names, {}).ok())
          absl::SleepFor(absl::Milliseconds(1));
      }
    });
    absl::Duration worst;
    v1::Report small;
    small.set_last_of_step(true);
    for (uint64_t seq = 1; late.acked(0) < kReports; ++seq) {
      small.set_seq(seq);
      small.set_step(static_cast<int64_t>(seq));
      const absl::Time sent = base::SteadyNow();
      while (!other.stream(0)->Submit(small, names, {}).ok()) absl::SleepFor(absl::Milliseconds(1));
      while (other.acked(0) < seq) absl::SleepFor(absl::Microseconds(100));
      worst = std::max(worst, base::SteadyNow() - sent);
      absl::SleepFor(absl::Milliseconds(10));
    }
    backlog.join();
    state.SetIterationTime(absl::ToDoubleSeconds(worst));
    late.HangUp();
    other.HangUp();
  }
}
BENCHMARK(BM_WorstAckBesideABacklog)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshock::bench
