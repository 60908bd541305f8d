#include "client/cli/backtest_runs.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/format.h"
#include "client/cli/progress.h"
#include "daemon/backtest/capture_steps.h"
#include "daemon/backtest/plot.h"
#include "daemon/backtest/stored_steps.h"
#include "daemon/base/gnuplot.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

namespace fs = std::filesystem;

bool IsCapture(const fs::path& path) {
  return path.extension() == ".fscap" || path.extension() == ".jsonl";
}

BacktestRun CaptureRun(const fs::path& path) {
  BacktestRun run;
  run.source = path.string();
  run.name = IsCapture(path) ? path.stem().string() : path.filename().string();
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (!error) run.bytes = size;
  return run;
}

// The captures of a file or folder.
absl::Status AddCaptures(const std::string& path, std::vector<BacktestRun>* runs) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat("--captures ", path, ": no such file or folder"));
  }
  if (status.type() != fs::file_type::directory) {
    runs->push_back(CaptureRun(path));
    return absl::OkStatus();
  }
  std::vector<fs::path> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (IsCapture(it->path())) files.push_back(it->path());
  }
  if (error) {
    return absl::PermissionDeniedError(absl::StrCat("--captures ", path, ": ", error.message()));
  }
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("--captures ", path, ": the folder has no .fscap or .jsonl file"));
  }
  for (const fs::path& file : files) runs->push_back(CaptureRun(file));
  return absl::OkStatus();
}

// --index, or the index.json of every folder of captures.
absl::StatusOr<backtest::RunLabels> FindLabels(const BacktestArguments& arguments) {
  std::vector<std::string> files;
  if (!arguments.index.empty()) {
    files.push_back(arguments.index);
  } else {
    for (const std::string& path : arguments.captures) {
      const fs::path beside = fs::path(path) / "index.json";
      std::error_code error;
      if (fs::is_regular_file(beside, error)) files.push_back(beside.string());
    }
  }
  backtest::RunLabels labels;
  for (const std::string& file : files) {
    FORESHOCK_ASSIGN_OR_RETURN(backtest::RunLabels more, backtest::ReadLabels(file));
    const size_t before = labels.size();
    for (auto& [name, label] : more) {
      label.place += before;
      labels.try_emplace(name, std::move(label));
    }
  }
  return labels;
}

// What the command line says of runs that no index names.
std::optional<backtest::RunLabel> LabelOfTheRest(const BacktestArguments& arguments) {
  backtest::RunLabel label;
  if (arguments.healthy) {
    label.expected = backtest::RunLabel::Expected::kQuiet;
    return label;
  }
  if (!arguments.fault_from.has_value()) return std::nullopt;
  label.expected = backtest::RunLabel::Expected::kAlarm;
  label.injection_step = arguments.fault_from;
  return label;
}

std::string PlotFile(const BacktestArguments& arguments, const BacktestRun& run, bool single) {
  if (single) return arguments.plot;
  const size_t dot = arguments.plot.rfind('.');
  std::string name = run.name;
  std::replace(name.begin(), name.end(), '/', '_');
  return absl::StrCat(arguments.plot.substr(0, dot), "-", name, arguments.plot.substr(dot));
}

class Judging {
 public:
  Judging(const BacktestArguments& arguments, std::shared_ptr<const rules::RuleSet> rules,
          BacktestWork* work)
      : arguments_(arguments),
        rules_(std::move(rules)),
        work_(*work),
        done_(work->runs.size()),
        progress_("backtest", TotalOf(*work)) {}

  void Run() {
    const size_t jobs = std::clamp<size_t>(arguments_.jobs, 1, work_.runs.size());
    std::vector<std::thread> threads;
    for (size_t i = 1; i < jobs; ++i) threads.emplace_back([this] { Work(); });
    Work();
    for (std::thread& thread : threads) thread.join();
    progress_.Finish();
  }

 private:
  // Bytes of the captures; a stored run counts as much as a capture of 8 MiB.
  static constexpr uint64_t kStoredBytes = 8u << 20;
  static uint64_t BytesOf(const BacktestRun& run) {
    return run.stored ? kStoredBytes : std::max<uint64_t>(run.bytes, 1);
  }
  static uint64_t TotalOf(const BacktestWork& work) {
    uint64_t total = 0;
    for (const BacktestRun& run : work.runs) total += BytesOf(run);
    return total;
  }

  void Work() {
    for (size_t i = next_++; i < work_.runs.size(); i = next_++) {
      BacktestRun& run = work_.runs[i];
      run.status = JudgeOne(i, &run);
      Show(i, BytesOf(run), run.name);
    }
  }

  void Show(size_t i, uint64_t done, const std::string& note) {
    done_[i] = done;
    uint64_t sum = 0;
    for (const auto& part : done_) sum += part;
    progress_.Update(sum, note);
  }

  absl::Status Read(size_t i, const BacktestRun& run, backtest::CaptureTotals* totals,
                    backtest::StepSink* sink) {
    const backtest::StepProgress progress = [&](uint64_t done, uint64_t total, int64_t step) {
      const uint64_t share = total == 0 ? 0 : BytesOf(run) * done / total;
      if (share > done_[i]) Show(i, share, absl::StrCat(run.name, ", step ", step));
    };
    if (run.stored) return backtest::ReadStoredSteps(*work_.store, run.source, progress, sink);
    FORESHOCK_ASSIGN_OR_RETURN(*totals, backtest::ReadCaptureSteps(run.source, progress, sink));
    return absl::OkStatus();
  }

  absl::Status JudgeOne(size_t i, BacktestRun* run) {
    backtest::Backtest backtest(rules_);
    backtest::CaptureTotals totals;
    FORESHOCK_RETURN_IF_ERROR(Read(i, *run, &totals, &backtest));
    run->result = backtest.Finish();
    run->verdict =
        backtest::JudgeRun(*rules_, run->result, run->label.has_value() ? &*run->label : nullptr);
    run->notes = backtest::Notes(run->result);
    if (run->label.has_value() && !run->label->ignored.empty()) {
      run->notes.push_back(absl::StrCat("its label says more than a verdict needs: ",
                                        absl::StrJoin(run->label->ignored, ", ")));
    }
    if (totals.rejected > 0) {
      run->notes.push_back(absl::StrCat(
          Plural(totals.rejected, "payload"),
          " refused, as the daemon would have done; the first: ", totals.reasons.front()));
    }
    if (arguments_.plot.empty()) return absl::OkStatus();
    // What is worth drawing is known only now, so the run is read once more.
    const std::vector<std::string> traced =
        arguments_.plot_rules.empty() ? backtest::RulesToTrace(*rules_, run->result, run->verdict)
                                      : arguments_.plot_rules;
    backtest::Backtest tracing(rules_, traced);
    FORESHOCK_RETURN_IF_ERROR(Read(i, *run, &totals, &tracing));
    tracing.Finish();
    const backtest::RunTrace trace = tracing.TakeTrace();
    run->plot = PlotFile(arguments_, *run, work_.runs.size() == 1);
    return base::RunGnuplot(backtest::PlotScript(
        {.title = run->name, .result = &run->result, .verdict = &run->verdict, .trace = &trace},
        run->plot));
  }

  const BacktestArguments& arguments_;
  const std::shared_ptr<const rules::RuleSet> rules_;
  BacktestWork& work_;
  std::atomic<size_t> next_{0};
  std::vector<std::atomic<uint64_t>> done_;
  Progress progress_;
};

}  // namespace

absl::StatusOr<BacktestWork> FindRuns(const BacktestArguments& arguments) {
  BacktestWork work;
  for (const std::string& path : arguments.captures) {
    FORESHOCK_RETURN_IF_ERROR(AddCaptures(path, &work.runs));
  }
  if (!arguments.runs.empty()) {
    FORESHOCK_ASSIGN_OR_RETURN(work.store,
                               store::OpenStore({.directory = arguments.data, .read_only = true}));
    for (const std::string& name : arguments.runs) {
      FORESHOCK_RETURN_IF_ERROR(work.store->Run(name).status());
      BacktestRun run;
      run.name = name;
      run.source = name;
      run.stored = true;
      work.runs.push_back(std::move(run));
    }
  }
  FORESHOCK_ASSIGN_OR_RETURN(const backtest::RunLabels labels, FindLabels(arguments));
  std::set<std::string> names;
  for (BacktestRun& run : work.runs) {
    if (!names.insert(run.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two runs are named ", run.name, " (one of them: ", run.source,
                       "); give them one at a time, because labels and plots go by the name"));
    }
    const auto label = labels.find(run.name);
    run.label = label != labels.end() ? std::optional(label->second) : LabelOfTheRest(arguments);
  }
  for (const auto& [name, label] : labels) {
    if (!names.contains(name)) work.not_given.push_back(name);
  }
  std::sort(work.runs.begin(), work.runs.end(), [&](const BacktestRun& a, const BacktestRun& b) {
    const auto key = [&labels](const BacktestRun& run) {
      const auto label = labels.find(run.name);
      return std::tuple(label == labels.end() ? labels.size() : label->second.place, run.name);
    };
    return key(a) < key(b);
  });
  return work;
}

void JudgeRuns(const BacktestArguments& arguments, std::shared_ptr<const rules::RuleSet> rules,
               BacktestWork* work) {
  Judging(arguments, std::move(rules), work).Run();
}

}  // namespace foreshock::cli
