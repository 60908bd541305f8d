// foreshock-load: simulates the ranks of a large training job against one daemon.
#include <sys/resource.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/load/load_options.h"
#include "tests/load/load_rank.h"
#include "tests/load/load_reports.h"
#include "tests/support/http_client.h"

namespace foreshock::load {
namespace {

enum ExitCode { kOk = 0, kFinding = 1, kUsage = 2, kUnreachable = 3 };

constexpr absl::Duration kReconnectCheck = absl::Milliseconds(50);
constexpr size_t kMessageBytesMax = 64u << 20;

// ---- What the daemon says of itself.

struct DaemonStats {
  double resident_mib = 0;
  double cpu_s = 0;
  double committed = 0;  // reports
};

double MetricOf(const std::string& page, const std::string& name) {
  const size_t at = page.find(absl::StrCat("\n", name, " "));
  double value = 0;
  if (at != std::string::npos) {
    const size_t begin = at + name.size() + 2;
    (void)absl::SimpleAtod(page.substr(begin, page.find('\n', begin) - begin), &value);
  }
  return value;
}

std::optional<DaemonStats> ReadDaemon(const std::string& http) {
  if (http.empty()) return std::nullopt;
  const support::HttpReply reply = support::HttpGet(http, "/metrics");
  if (reply.status != 200) return std::nullopt;
  return DaemonStats{.resident_mib = MetricOf(reply.body, "process_resident_memory_bytes") / 0x1p20,
                     .cpu_s = MetricOf(reply.body, "process_cpu_seconds_total"),
                     .committed = MetricOf(reply.body, "foreshock_reports_committed_total")};
}

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// ---- All ranks.

double Quantile(std::vector<float>* values, double q) {
  if (values->empty()) return 0;
  const auto at =
      values->begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

class Load {
 public:
  explicit Load(const LoadOptions& options) : options_(options), maker_(options) {
    const uint32_t connections = options.connections == 0 ? options.ranks : options.connections;
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (uint32_t i = 0; i < connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
      arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
      channels.push_back(
          grpc::CreateCustomChannel(options.server, grpc::InsecureChannelCredentials(), arguments));
    }
    for (uint32_t rank = 0; rank < options.ranks; ++rank) {
      ranks_.push_back(
          std::make_unique<LoadRank>(options_, maker_, rank, channels[rank % connections]));
    }
    cursors_.resize(ranks_.size());
  }
  ~Load() { Stop(); }

  // False when not all ranks were let in.
  bool Greet() {
    const absl::Time started = absl::Now();
    while (Counts().open < options_.ranks) {
      if (absl::Now() - started > options_.greeting) return false;
      for (auto& rank : ranks_) rank->Connect(absl::Now());
      absl::SleepFor(kReconnectCheck);
    }
    std::printf("%u ranks are connected after %.1f s\n", options_.ranks,
                absl::ToDoubleSeconds(absl::Now() - started));
    std::fflush(stdout);
    return true;
  }

  void Begin() {
    started_ = absl::Now() + absl::Milliseconds(100);
    for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
      ranks_[rank]->Begin(started_ + OffsetOf(rank));
    }
    pacer_ = std::thread([this] { Pace(); });
  }

  // After the last report: Goodbye to all; true when all are confirmed in time.
  bool End() {
    pacer_.join();
    for (auto& rank : ranks_) rank->Finish();
    const absl::Time until = absl::Now() + options_.drain;
    while (Counts().finished < options_.ranks && absl::Now() < until) {
      for (auto& rank : ranks_) rank->Connect(absl::Now());
      absl::SleepFor(kReconnectCheck);
    }
    return Counts().finished == options_.ranks;
  }

  void Stop() {
    if (pacer_.joinable()) pacer_.join();
    for (auto& rank : ranks_) rank->Stop();
    for (auto& rank : ranks_) {
      while (!rank->idle()) absl::SleepFor(absl::Milliseconds(10));
    }
  }

  bool pacing() const { return !paced_; }

  RankCounts Counts() const {
    RankCounts sum;
    for (const auto& rank : ranks_) {
      const RankCounts counts = rank->counts();
      sum.due += counts.due;
      sum.sent += counts.sent;
      sum.acked += counts.acked;
      sum.rejected += counts.rejected;
      sum.greeted += counts.greeted;
      sum.ended += counts.ended;
      sum.open += counts.open;
      sum.finished += counts.finished;
    }
    return sum;
  }

  // Of the acks since the last call, or of all.
  std::vector<float> NewLatencies() {
    std::vector<float> latencies;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const size_t before = latencies.size();
      ranks_[i]->AppendLatencies(cursors_[i], &latencies);
      cursors_[i] += latencies.size() - before;
    }
    return latencies;
  }
  std::vector<float> AllLatencies() const {
    std::vector<float> latencies;
    for (const auto& rank : ranks_) rank->AppendLatencies(0, &latencies);
    return latencies;
  }

  // The first there is of any rank.
  std::string FirstText(std::string (LoadRank::*text)() const) const {
    for (const auto& rank : ranks_) {
      if (std::string found = ((*rank).*text)(); !found.empty()) return found;
    }
    return "";
  }

 private:
  absl::Duration OffsetOf(uint32_t rank) const { return options_.spread * rank / options_.ranks; }

  void Pace() {
    absl::Time check_at = started_;
    for (int64_t step = 0; step < options_.steps(); ++step) {
      for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
        const absl::Time due = started_ + step * options_.interval + OffsetOf(rank);
        for (absl::Time now = absl::Now(); now < due || now >= check_at; now = absl::Now()) {
          if (now >= check_at) {
            for (auto& each : ranks_) each->Connect(now);
            check_at = now + kReconnectCheck;
          }
          if (now < due) absl::SleepFor(std::min(due, check_at) - now);
        }
        ranks_[rank]->SetDue(step + 1);
      }
    }
    paced_ = true;
  }

  const LoadOptions& options_;
  const ReportMaker maker_;
  std::vector<std::unique_ptr<LoadRank>> ranks_;
  std::vector<size_t> cursors_;
  absl::Time started_;
  std::atomic<bool> paced_{false};
  std::thread pacer_;
};

// ---- What is shown.

struct Memory {
  std::vector<double> mib;  // once a second

  // The mean of the part of the run from `begin` to `end`, in fractions of it.
  double Mean(double begin, double end) const {
    const auto n = static_cast<double>(mib.size());
    const auto first = static_cast<size_t>(begin * n);
    const auto last = std::max(first + 1, static_cast<size_t>(end * n));
    double sum = 0;
    for (size_t i = first; i < last; ++i) sum += mib[i];
    return sum / static_cast<double>(last - first);
  }
};

void PrintProgress(int64_t second, const RankCounts& counts, std::vector<float> latencies,
                   const std::optional<DaemonStats>& daemon) {
  std::string line = absl::StrFormat(
      "%5d s  due %d  acked %d  waiting %d  last second: %d acks, p50 %.0f ms, p99 %.0f ms", second,
      counts.due, counts.acked, counts.due - counts.acked, latencies.size(),
      Quantile(&latencies, 0.5), Quantile(&latencies, 0.99));
  if (counts.ended > 0) absl::StrAppend(&line, "  streams ended ", counts.ended);
  if (daemon.has_value()) {
    absl::StrAppendFormat(&line, "  daemon %.0f MiB", daemon->resident_mib);
  }
  std::puts(line.c_str());
  std::fflush(stdout);
}

int Run(const LoadOptions& options) {
  Load load(options);
  if (!load.Greet()) {
    const std::string error = load.FirstText(&LoadRank::last_error);
    std::fprintf(stderr, "foreshock-load: %d of %u ranks were let in at %s within %.0f s: %s\n",
                 static_cast<int>(load.Counts().open), options.ranks, options.server.c_str(),
                 absl::ToDoubleSeconds(options.greeting), error.c_str());
    return kUnreachable;
  }
  const std::optional<DaemonStats> before = ReadDaemon(options.http);
  const double own_cpu_before = OwnCpuSeconds();
  const absl::Time started = absl::Now();
  Memory memory;
  load.Begin();
  for (int64_t second = 1; load.pacing(); ++second) {
    absl::SleepFor(started + absl::Seconds(second) - absl::Now());
    const std::optional<DaemonStats> daemon = ReadDaemon(options.http);
    if (daemon.has_value()) memory.mib.push_back(daemon->resident_mib);
    PrintProgress(second, load.Counts(), load.NewLatencies(), daemon);
  }
  const bool confirmed = load.End();
  const double seconds = absl::ToDoubleSeconds(absl::Now() - started);
  const std::optional<DaemonStats> after = ReadDaemon(options.http);
  const double own_cpu = OwnCpuSeconds() - own_cpu_before;
  const RankCounts counts = load.Counts();
  std::vector<float> latencies = load.AllLatencies();
  const uint64_t lost = counts.due - counts.acked;

  std::printf(
      "reports   %ju due in %.1f s, %ju acknowledged, %ju lost, %ju rejected, "
      "%ju sent again\n",
      static_cast<uintmax_t>(counts.due), seconds, static_cast<uintmax_t>(counts.acked),
      static_cast<uintmax_t>(lost), static_cast<uintmax_t>(counts.rejected),
      static_cast<uintmax_t>(counts.sent > counts.due ? counts.sent - counts.due : 0));
  std::printf("streams   %ju let in, %ju ended early, %ju of %u goodbyes confirmed\n",
              static_cast<uintmax_t>(counts.greeted), static_cast<uintmax_t>(counts.ended),
              static_cast<uintmax_t>(counts.finished), options.ranks);
  std::printf("latency   from due to acknowledged: p50 %.1f  p90 %.1f  p99 %.1f  max %.1f ms\n",
              Quantile(&latencies, 0.5), Quantile(&latencies, 0.9), Quantile(&latencies, 0.99),
              Quantile(&latencies, 1));
  bool grown = false;
  if (before.has_value() && after.has_value() && !memory.mib.empty()) {
    const double cpu = after->cpu_s - before->cpu_s;
    std::printf("daemon    %.2f cores, %.0f us of CPU a report\n", cpu / seconds,
                1e6 * cpu / static_cast<double>(std::max<uint64_t>(counts.acked, 1)));
    const double half = memory.Mean(0.5, 0.75);
    const double end = memory.Mean(0.75, 1);
    std::printf("memory    MiB by quarters of the run: %.0f  %.0f  %.0f  %.0f; highest %.0f\n",
                memory.Mean(0, 0.25), memory.Mean(0.25, 0.5), half, end,
                *std::max_element(memory.mib.begin(), memory.mib.end()));
    grown = options.growth_max_percent > 0 && end > half * (1 + options.growth_max_percent / 100);
  }
  std::printf("this      %.2f cores\n", own_cpu / seconds);

  if (lost > 0)
    std::printf("LOST      %ju reports were not acknowledged\n", static_cast<uintmax_t>(lost));
  if (!confirmed && lost == 0) std::puts("LOST      not every goodbye was confirmed");
  if (counts.rejected > 0) {
    std::printf("REJECTED  %s\n", load.FirstText(&LoadRank::rejection).c_str());
  }
  if (counts.ended > 0) {
    std::printf("ended     %s\n", load.FirstText(&LoadRank::last_error).c_str());
  }
  if (grown) {
    std::printf("GROWN     memory grew by more than %g %% from the third to the last quarter\n",
                options.growth_max_percent);
  }
  return lost > 0 || !confirmed || counts.rejected > 0 || grown ? kFinding : kOk;
}

// ---- The command line.

void AddSeconds(CLI::App& app, const std::string& name, absl::Duration* value,
                const std::string& help, double min, double max) {
  app.add_option_function<double>(
         name, [value](const double& seconds) { *value = absl::Seconds(seconds); }, help)
      ->check(CLI::Range(min, max))
      ->type_name("SECONDS")
      ->default_str(absl::StrCat(absl::ToDoubleSeconds(*value)));
}

void AddCount(CLI::App& app, const std::string& name, uint32_t* value, const std::string& help,
              uint32_t min, uint32_t max) {
  app.add_option(name, *value, help)
      ->check(CLI::Range(min, max))
      ->type_name("N")
      ->capture_default_str();
}

// Every rank needs a connection, so a file, of its own.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(int argc, char** argv) {
  LoadOptions options;
  options.run = absl::StrCat("load-", getpid());
  for (const auto& [name, value] : {std::pair{"FORESHOCK_SERVER", &options.server},
                                    std::pair{"FORESHOCK_HTTP", &options.http}}) {
    if (const char* given = std::getenv(name); given != nullptr && *given != '\0') *value = given;
  }
  CLI::App app(
      "Simulates the ranks of a large training job against one daemon: every rank is a gRPC\n"
      "stream of its own that sends a report each step, whether the daemon keeps up or not, goes\n"
      "on after a broken stream as a client must, and counts what is acknowledged.",
      "foreshock-load");
  app.add_option("--server,-s", options.server, "gRPC address; FORESHOCK_SERVER sets it too")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--http", options.http,
                 "where the daemon serves /metrics, to show its memory and CPU time;\n"
                 "FORESHOCK_HTTP sets it too")
      ->type_name("HOST:PORT");
  app.add_option("--run", options.run, "the run's name at the daemon")
      ->type_name("NAME")
      ->capture_default_str();
  AddCount(app, "--ranks", &options.ranks, "ranks of the job", 1, 1u << 16);
  AddCount(app, "--connections", &options.connections,
           "connections that the ranks share; 0: each has its own, as in a real job", 0, 1u << 16);
  AddSeconds(app, "--interval", &options.interval, "from one step to the next", 0.001, 3600);
  AddSeconds(app, "--spread", &options.spread,
             "over which the ranks' reports of a step are spread; 0: all at once, as after a\n"
             "collective; at most the interval",
             0, 3600);
  AddSeconds(app, "--duration", &options.duration, "of the whole", 0.001, 1e6);
  AddSeconds(app, "--greeting", &options.greeting, "how long to wait until all ranks are let in",
             0.1, 3600);
  AddSeconds(app, "--drain", &options.drain,
             "how long the last acknowledgements are waited for; then they are lost", 0, 3600);
  AddCount(app, "--scalars", &options.scalars, "scalars in a report", 1, 1024);
  AddCount(app, "--rank-scalars", &options.rank_scalars,
           "of them with a series for each rank; the others are reduced over the ranks", 0, 1024);
  AddCount(app, "--layers", &options.layers, "layers with a router; 0: none", 0, 4096);
  AddCount(app, "--experts", &options.experts, "experts of a layer", 1, 4096);
  AddCount(app, "--gram-ranks", &options.gram_ranks,
           "ranks that also send Gram matrices of their heads, of every layer", 0, 1u << 16);
  AddCount(app, "--gram-every", &options.gram_every_steps, "steps between Gram matrices", 1,
           1u << 20);
  AddCount(app, "--gram-heads", &options.gram_heads, "heads of a Gram rank in each layer", 1, 256);
  AddCount(app, "--head-dim", &options.head_dim, "r: a Gram matrix is 2r x 2r", 1, 1024);
  app.add_option("--growth-max", options.growth_max_percent,
                 "how much the daemon's memory may grow from the third quarter of the run to the\n"
                 "last; 0: not judged")
      ->check(CLI::Range(0.0, 1000.0))
      ->type_name("PERCENT")
      ->capture_default_str();
  app.footer(
      "A report's latency counts from the moment it is due, so a daemon that cannot keep up "
      "shows.\n"
      "Nothing is dropped: what the daemon refuses is sent again after the delay it asks for.\n"
      "Exit code: 0 all is acknowledged; 1 a report is lost or rejected, or memory grew; 2 wrong\n"
      "usage; 3 the ranks were not let in.\n"
      "Examples:\n"
      "  foreshock-load --ranks 64 --duration 10                      a small job\n"
      "  foreshock-load --http 127.0.0.1:7318 --duration 600          2048 ranks, 10 minutes\n"
      "  foreshock-load --interval 0.25 --gram-ranks 0                where does it saturate?");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  const auto refuse = [](const char* problem) {
    std::fprintf(stderr, "foreshock-load: %s\n", problem);
    return kUsage;
  };
  if (options.spread > options.interval) return refuse("--spread is at most --interval");
  if (options.rank_scalars > options.scalars) return refuse("--rank-scalars is at most --scalars");
  if (options.gram_ranks > 0 && options.layers == 0) {
    return refuse("--gram-ranks needs --layers; or say --gram-ranks 0");
  }
  if (options.steps() < 1) return refuse("--duration is at least one --interval");
  options.gram_ranks = std::min(options.gram_ranks, options.ranks);
  RaiseFileLimit();
  return Run(options);
}

}  // namespace
}  // namespace foreshock::load

int main(int argc, char** argv) { return foreshock::load::Main(argc, argv); }
