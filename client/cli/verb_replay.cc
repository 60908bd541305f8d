// foreshock replay FILE...: pushes captures as the ranks once did.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/live_view.h"
#include "client/cli/progress.h"
#include "client/cli/replayer.h"
#include "client/cli/say.h"
#include "daemon/base/clock.h"
#include "daemon/capture/reader.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

struct ReplayArguments {
  std::vector<std::string> files;
  std::string run;
  double speed = 0;
  bool watch = false;
  int64_t watch_every_steps = 100;
};

// "full" is 0, "realtime" is 1, "20x" is 20.
std::optional<double> ParseSpeed(const std::string& text) {
  if (text == "full") return 0;
  if (text == "realtime") return 1;
  double factor = 0;
  const absl::string_view number = absl::StripSuffix(text, "x");
  if (number.size() == text.size() || !absl::SimpleAtod(number, &factor)) return std::nullopt;
  return factor > 0 && factor <= 1e6 ? std::optional<double>(factor) : std::nullopt;
}

struct Outcome {
  ReplayTotals totals;
  absl::Duration took;
};

// The capture is at fault, not the daemon: a finding, whatever the file system called it.
absl::Status FileError(const absl::Status& status) { return absl::DataLossError(status.message()); }

// What the daemon calls an invalid argument comes out of the capture, not of the command line.
absl::Status SendError(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? FileError(status) : status;
}

// Sends one file.
absl::StatusOr<Outcome> ReplayFile(Connection& daemon, const ReplayArguments& arguments,
                                   const std::string& file, absl::Duration timeout) {
  auto reader = capture::CaptureReader::Open(file);
  if (!reader.ok()) return FileError(reader.status());
  const absl::Time start = base::SteadyNow();
  // Bytes of the file, the only total known in advance; a pipe has none.
  Progress progress("replay", (*reader)->progress().bytes_total);
  Replayer replayer(daemon.ingest(), {.run = arguments.run,
                                      .speed = arguments.speed,
                                      .timeout = std::max(timeout, absl::Seconds(30))});
  std::optional<LiveView> view;
  v1::CaptureRecord record;
  while (true) {
    const absl::StatusOr<bool> more = (*reader)->Next(&record);
    if (!more.ok()) return FileError(more.status());
    if (!*more) break;
    const absl::Status sent = replayer.Send(std::move(record));
    if (!sent.ok()) return SendError(sent);
    const ReplayTotals& totals = replayer.totals();
    if (arguments.watch && !view) {
      view.emplace(daemon, LiveView::Options{totals.run, arguments.watch_every_steps}, progress);
    }
    progress.Update(
        (*reader)->progress().bytes_read,
        absl::StrCat(totals.run, ", step ", totals.last_step, ", ",
                     Plural(totals.reports, "report"), " of ", Plural(totals.streams, "rank")));
    record.Clear();
  }
  const absl::Status finished = replayer.Finish();
  if (!finished.ok()) return SendError(finished);
  if (view) view->Finish(replayer.totals().last_step, absl::Seconds(10));
  progress.Finish();
  return Outcome{replayer.totals(), base::SteadyNow() - start};
}

void PrintOutcome(const Outcome& outcome, const std::string& file) {
  const ReplayTotals& totals = outcome.totals;
  const Terminal out(stdout);
  const std::string sent =
      absl::StrCat(Plural(totals.reports, "report"), " from ", Plural(totals.streams, "stream"));
  if (totals.reports > 0 && totals.reports_rejected >= totals.reports) {
    Say("%s %s: none taken of %s\n", out.Paint(Style::kRed, "✗"),
        out.Paint(Style::kBold, totals.run), sent);
  } else {
    Say("%s %s: %s, up to step %lld, %s in %s\n",
        totals.rejected > 0 ? out.Paint(Style::kYellow, "!") : out.Paint(Style::kGreen, "✓"),
        out.Paint(Style::kBold, totals.run), sent, static_cast<long long>(totals.last_step),
        totals.rejected > 0 ? "answered" : "acknowledged", ShortDuration(outcome.took));
  }
  if (totals.skipped > 0) {
    Say("  %s of %s had been committed before and were not sent again;\n"
        "  --run NAME replays into a run of its own\n",
        Plural(totals.skipped, "report"), file);
  }
  if (totals.rejected > 0) {
    const std::string rejected = absl::StrCat(
        "the daemon rejected ", Plural(totals.reports_rejected, "report"), " and ",
        FormatCount(totals.rejected - totals.reports_rejected), " single summaries of others");
    Say("  %s:\n", out.Paint(Style::kYellow, rejected));
    for (const std::string& reason : totals.reasons) Say("    %s\n", reason);
  }
}

void PrintOutcomeAsJson(const Outcome& outcome, const std::string& file) {
  const ReplayTotals& totals = outcome.totals;
  const nlohmann::json line = {{"file", file},
                               {"run", totals.run},
                               {"attempts", totals.attempts},
                               {"streams", totals.streams},
                               {"reports", totals.reports},
                               {"skipped", totals.skipped},
                               {"duplicates", totals.duplicates},
                               {"rejected", totals.rejected},
                               {"reports_rejected", totals.reports_rejected},
                               {"rejections", totals.reasons},
                               {"last_step", totals.last_step},
                               {"seconds", absl::ToDoubleSeconds(outcome.took)}};
  SayExact(absl::StrCat(line.dump(), "\n"));
}

int Replay(const Settings& settings, const ReplayArguments& arguments) {
  Connection daemon(settings);
  int code = kOk;
  for (const std::string& file : arguments.files) {
    const auto outcome = ReplayFile(daemon, arguments, file, settings.timeout);
    if (!outcome.ok()) {
      SayError("foreshock replay %s\n", file);
      return daemon.Report(outcome.status());
    }
    if (outcome->totals.rejected > 0) code = kFinding;
    if (settings.output == Output::kJson) {
      PrintOutcomeAsJson(*outcome, file);
    } else {
      PrintOutcome(*outcome, file);
    }
  }
  return code;
}

}  // namespace

void AddReplay(CLI::App& app, Program& program) {
  auto arguments = std::make_shared<ReplayArguments>();
  auto speed = std::make_shared<std::string>("full");
  CLI::App* verb = app.add_subcommand("replay", "Push recorded runs to a daemon");
  verb->add_option("FILE", arguments->files, "captures, .fscap or .jsonl")->required();
  verb->add_option("--run", arguments->run, "the run's name at the daemon; default: as recorded")
      ->type_name("NAME");
  verb->add_option("--speed", *speed, "full, realtime, or a factor such as 20x")
      ->type_name("SPEED")
      ->capture_default_str()
      ->check(CLI::Validator(
          [](std::string& text) {
            return ParseSpeed(text) ? std::string()
                                    : absl::StrCat("--speed ", text,
                                                   ": expected full, realtime or a factor > 0 "
                                                   "such as 20x");
          },
          ""));
  verb->add_flag("--watch,-w", arguments->watch,
                 "show what the daemon computes, and alerts as they come");
  verb->add_option("--watch-every", arguments->watch_every_steps, "steps between rows of --watch")
      ->type_name("STEPS")
      ->check(WholeBetween(1, 1'000'000))
      ->capture_default_str();
  AddConnectionOptions(*verb, program);
  verb->footer(
      "Every report is acknowledged, which means stored, before this ends. Replaying again goes "
      "on\n"
      "where the last time ended; what is stored is not sent twice.\n"
      "Exit code: 1 when the daemon rejected something or the file is damaged.\n"
      "Examples:\n"
      "  foreshock replay run.fscap --watch\n"
      "  foreshock replay run.fscap --run try-2 --speed 20x\n"
      "  foreshock replay a.jsonl b.fscap -o json");
  verb->callback([&program, arguments, speed] {
    arguments->speed = *ParseSpeed(*speed);
    program.exit_code = Replay(program.settings, *arguments);
  });
}

}  // namespace foreshock::cli
