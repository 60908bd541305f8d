// Whole-process figures, against the built foreshockd:
//   ingest   one stream of BF16 gates [128 x 256] beside a bare callback server of the same library
//            that drops the same messages, in turns
//   latency  from the push that closes a step to the firing alert in the read API; 8 ranks, 10
//            steps/s, default rules
//   memory   resident memory of a daemon that has just started
// Usage: load_bench FORESHOCKD RULES_DIR [--messages N] [--rounds N] [--trials N]

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "daemon/base/check.h"
#include "foreshock/v1/ingest.grpc.pb.h"
#include "foreshock/v1/query.grpc.pb.h"
#include "tests/support/temp_dir.h"

extern char** environ;

namespace foreshock::bench {
namespace {

constexpr uint32_t kTokens = 128;
constexpr uint32_t kExperts = 256;
constexpr uint32_t kTopK = 8;
constexpr size_t kMessageBytesMax = 64u << 20;

struct Settings {
  std::string self;
  std::string foreshockd;
  std::string rules;
  int messages = 20000;
  int rounds = 3;
  int trials = 60;
};

// ---- The bare server: reads everything, answers a Goodbye, does nothing else.

class BareService final : public v1::IngestService::CallbackService {
  class Reactor final : public grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse> {
   public:
    Reactor() { StartRead(&request_); }
    void OnReadDone(bool ok) override {
      if (!ok) {
        Finish(grpc::Status::OK);
      } else if (request_.has_goodbye()) {
        StartWrite(&response_);
      } else {
        StartRead(&request_);
      }
    }
    void OnWriteDone(bool) override { StartRead(&request_); }
    void OnDone() override { delete this; }

   private:
    v1::PushRequest request_;
    v1::PushResponse response_;
  };
  grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Push(
      grpc::CallbackServerContext*) override {
    return new Reactor;
  }
};

int RunBareServer(const std::string& address_file) {
  BareService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  FORESHOCK_CHECK(server != nullptr);
  std::ofstream(address_file + ".new") << "grpc=127.0.0.1:" << port << "\n";
  FORESHOCK_CHECK(std::rename((address_file + ".new").c_str(), address_file.c_str()) == 0);
  server->Wait();
  return 0;
}

// ---- A server process.

class Process {
 public:
  Process(std::vector<std::string> arguments, const std::string& address_file) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    FORESHOCK_CHECK(posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) == 0);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (address_.empty()) {
      FORESHOCK_CHECK(absl::Now() < deadline);
      std::ifstream file(address_file);
      for (std::string line; std::getline(file, line);) {
        if (line.rfind("grpc=", 0) == 0) address_ = line.substr(5);
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
  ~Process() {
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
  }

  const std::string& address() const { return address_; }

  // User and system time so far.
  double cpu_seconds() const {
    std::ifstream file(absl::StrCat("/proc/", pid_, "/stat"));
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::vector<std::string> fields = absl::StrSplit(text.substr(text.rfind(')') + 2), ' ');
    return (std::stod(fields[11]) + std::stod(fields[12])) /
           static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  double resident_mib() const {
    std::ifstream file(absl::StrCat("/proc/", pid_, "/status"));
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("VmRSS:", 0) == 0) return std::stod(line.substr(6)) / 1024;
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

 private:
  pid_t pid_ = 0;
  std::string address_;
};

std::unique_ptr<Process> StartDaemon(const Settings& settings, const support::TempDir& dir) {
  const std::string address_file = dir.File("address");
  return std::make_unique<Process>(
      std::vector<std::string>{settings.foreshockd, "--data-dir", dir.File("data"), "--listen-grpc",
                               "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--rules",
                               settings.rules + "/default.yaml", "--rules",
                               settings.rules + "/signatures.yaml", "--address-file", address_file,
                               "--log-level", "warning"},
      address_file);
}

std::unique_ptr<Process> StartBare(const Settings& settings, const support::TempDir& dir) {
  const std::string address_file = dir.File("address");
  return std::make_unique<Process>(
      std::vector<std::string>{settings.self, "--bare-server", address_file}, address_file);
}

std::shared_ptr<grpc::Channel> Connect(const Process& process) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  return grpc::CreateCustomChannel(process.address(), grpc::InsecureChannelCredentials(),
                                   arguments);
}

// ---- Ingest.

std::string Bf16Logits(std::mt19937& random) {
  std::normal_distribution<float> normal(0, 2);
  std::string bytes(kTokens * kExperts * 2, '\0');
  for (size_t i = 0; i < kTokens * kExperts; ++i) {
    const float value = normal(random);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    const uint16_t half = static_cast<uint16_t>(bits >> 16);
    std::memcpy(&bytes[2 * i], &half, 2);
  }
  return bytes;
}

v1::PushRequest HelloMessage(const std::string& run, uint32_t rank, uint32_t world_size) {
  v1::PushRequest request;
  v1::Hello* hello = request.mutable_hello();
  hello->set_run(run);
  hello->set_launch_id("load");
  hello->set_client_instance(absl::StrCat("load-", rank));
  hello->set_rank(rank);
  hello->set_world_size(world_size);
  hello->mutable_coordinates()->set_data(rank);
  v1::ModelShape* model = hello->mutable_model();
  model->set_layers(4);
  model->set_experts(kExperts);
  model->set_top_k(kTopK);
  return request;
}

struct IngestResult {
  double messages_per_second = 0;
  double server_cpu_us = 0;  // per message
};

IngestResult MeasureIngest(const Settings& settings, const Process& process) {
  std::mt19937 random(42);
  const auto stub = v1::IngestService::NewStub(Connect(process));
  grpc::ClientContext context;
  auto stream = stub->Push(&context);
  FORESHOCK_CHECK(stream->Write(HelloMessage("load", 0, 1)));

  v1::PushRequest request;
  v1::Report* report = request.mutable_report();
  report->set_last_of_step(true);
  v1::RouterGates* gates = report->add_summaries()->mutable_router_gates();
  gates->set_score_kind(v1::SCORE_KIND_SOFTMAX_LOGITS);
  gates->mutable_scores()->set_dtype(v1::DTYPE_BF16);
  gates->mutable_scores()->add_shape(kTokens);
  gates->mutable_scores()->add_shape(kExperts);
  gates->mutable_scores()->set_data(Bf16Logits(random));

  std::thread reader([&stream] {
    for (v1::PushResponse response; stream->Read(&response);) {
      FORESHOCK_CHECK(response.ack().rejections_size() == 0);
    }
  });
  const double cpu_before = process.cpu_seconds();
  const absl::Time started = absl::Now();
  for (int i = 0; i < settings.messages; ++i) {
    report->set_seq(static_cast<uint64_t>(i) + 1);
    report->set_step(i);
    FORESHOCK_CHECK(stream->Write(request));
  }
  request.mutable_goodbye()->set_outcome(v1::OUTCOME_FINISHED);
  FORESHOCK_CHECK(stream->Write(request));
  stream->WritesDone();
  reader.join();  // the last ack has come
  const double seconds = absl::ToDoubleSeconds(absl::Now() - started);
  const grpc::Status status = stream->Finish();
  if (!status.ok()) std::fprintf(stderr, "push ended: %s\n", status.error_message().c_str());
  FORESHOCK_CHECK(status.ok());
  return {settings.messages / seconds,
          (process.cpu_seconds() - cpu_before) / settings.messages * 1e6};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void BenchIngest(const Settings& settings) {
  std::vector<double> bare_rate, bare_cpu, rate, cpu;
  for (int round = 0; round < settings.rounds; ++round) {
    {
      const support::TempDir dir;
      const IngestResult result = MeasureIngest(settings, *StartBare(settings, dir));
      bare_rate.push_back(result.messages_per_second);
      bare_cpu.push_back(result.server_cpu_us);
    }
    {
      const support::TempDir dir;
      const IngestResult result = MeasureIngest(settings, *StartDaemon(settings, dir));
      rate.push_back(result.messages_per_second);
      cpu.push_back(result.server_cpu_us);
    }
  }
  std::printf("ingest, one stream, BF16 gates [%u x %u], top-%u, %d messages, median of %d\n",
              kTokens, kExperts, kTopK, settings.messages, settings.rounds);
  std::printf("  bare server   %8.0f messages/s  %6.1f us server CPU each\n", Median(bare_rate),
              Median(bare_cpu));
  std::printf("  foreshockd    %8.0f messages/s  %6.1f us server CPU each\n", Median(rate),
              Median(cpu));
  std::printf("  ratio         %8.2f of the bare server (target >= 0.60)\n",
              Median(rate) / Median(bare_rate));
}

// ---- Latency.

struct RankStream {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream;
};

void SendLoss(RankStream* rank, int64_t step, double loss) {
  v1::PushRequest request;
  v1::Report* report = request.mutable_report();
  report->set_seq(static_cast<uint64_t>(step) + 1);
  report->set_step(step);
  report->set_last_of_step(true);
  v1::ScalarBatch* scalars = report->add_summaries()->mutable_scalars();
  if (step == 0) {
    v1::ScalarDeclaration* declaration = scalars->add_declare();
    declaration->set_id(1);
    declaration->set_name("loss");
    declaration->set_reduction(v1::REDUCTION_MEAN);
    declaration->set_scope(v1::SCOPE_RANK);
  }
  scalars->add_ids(1);
  scalars->add_values(loss);
  FORESHOCK_CHECK(rank->stream->Write(request));
}

bool Fires(v1::QueryService::Stub* query, const std::string& run) {
  grpc::ClientContext context;
  v1::ListAlertsRequest request;
  request.set_run(run);
  request.set_state(v1::ALERT_STATE_FIRING);
  v1::ListAlertsResponse response;
  return query->ListAlerts(&context, request, &response).ok() && response.alerts_size() > 0;
}

void BenchLatency(const Settings& settings) {
  constexpr uint32_t kRanks = 8;
  constexpr int64_t kSteps = 5;
  const support::TempDir dir;
  const auto daemon = StartDaemon(settings, dir);
  const auto channel = Connect(*daemon);
  const auto push = v1::IngestService::NewStub(channel);
  const auto query = v1::QueryService::NewStub(channel);
  std::vector<double> milliseconds;
  for (int trial = 0; trial < settings.trials; ++trial) {
    const std::string run = absl::StrCat("latency-", trial);
    std::vector<std::unique_ptr<RankStream>> ranks;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(std::make_unique<RankStream>());
      ranks.back()->stream = push->Push(&ranks.back()->context);
      FORESHOCK_CHECK(ranks.back()->stream->Write(HelloMessage(run, rank, kRanks)));
    }
    for (int64_t step = 0; step < kSteps; ++step) {
      absl::SleepFor(absl::Milliseconds(100));
      const bool fault = step == kSteps - 1;
      for (uint32_t rank = 0; rank + 1 < kRanks; ++rank) SendLoss(ranks[rank].get(), step, 2.0);
      const absl::Time closing = absl::Now();
      SendLoss(ranks.back().get(), step, fault ? std::nan("") : 2.0);
      if (!fault) continue;
      while (!Fires(query.get(), run)) FORESHOCK_CHECK(absl::Now() - closing < absl::Seconds(10));
      milliseconds.push_back(absl::ToDoubleMilliseconds(absl::Now() - closing));
    }
    for (auto& rank : ranks) rank->context.TryCancel();
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const auto quantile = [&](double q) {
    return milliseconds[static_cast<size_t>(q * static_cast<double>(milliseconds.size() - 1))];
  };
  std::printf("push that closes a step -> firing alert, 8 ranks, 10 steps/s, %d trials\n",
              settings.trials);
  std::printf("  p50 %.1f ms  p90 %.1f ms  p99 %.1f ms (target p99 < 100 ms)\n", quantile(0.5),
              quantile(0.9), quantile(0.99));
}

void BenchMemory(const Settings& settings) {
  const support::TempDir dir;
  const auto daemon = StartDaemon(settings, dir);
  absl::SleepFor(absl::Seconds(2));
  std::printf("idle daemon, default rules\n  resident %.1f MiB (target < 64 MiB)\n",
              daemon->resident_mib());
}

int Main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--bare-server") return RunBareServer(argv[2]);
  Settings settings;
  settings.self = "/proc/self/exe";
  if (argc < 3) {
    std::fprintf(
        stderr,
        "usage: load_bench FORESHOCKD RULES_DIR [--messages N] [--rounds N] [--trials N]\n");
    return 2;
  }
  char self[4096] = {};
  FORESHOCK_CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  settings.self = self;
  settings.foreshockd = argv[1];
  settings.rules = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    int* value = std::string(argv[i]) == "--messages" ? &settings.messages
                 : std::string(argv[i]) == "--rounds" ? &settings.rounds
                 : std::string(argv[i]) == "--trials" ? &settings.trials
                                                      : nullptr;
    if (value == nullptr || !absl::SimpleAtoi(argv[i + 1], value) || *value < 1) {
      std::fprintf(stderr,
                   "load_bench: %s %s: expected --messages, --rounds or --trials and a "
                   "number from 1\n",
                   argv[i], argv[i + 1]);
      return 2;
    }
  }
  BenchMemory(settings);
  BenchLatency(settings);
  BenchIngest(settings);
  return 0;
}

}  // namespace
}  // namespace foreshock::bench

int main(int argc, char** argv) { return foreshock::bench::Main(argc, argv); }
