// foreshock import FILE... -w OUT: logs that a training wrote anyway become a capture.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/log_capture.h"
#include "client/cli/log_reader.h"
#include "client/cli/progress.h"
#include "client/cli/say.h"
#include "client/cli/scalar_names.h"
#include "client/cli/terminal.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/writer.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

struct ImportArguments {
  std::vector<std::string> files;
  std::string out;
  std::string run;  // empty: the first file's name
  LogOptions log;
  std::vector<std::string> map;
};

struct ImportOutcome {
  LogTotals totals;
  std::vector<std::pair<std::string, std::string>> scalars;  // column, scalar
  std::vector<std::string> formats;                          // of the files
};

constexpr uint64_t kRowsPerUpdate = 1000;  // of the progress bar
constexpr size_t kRunBytesMax = 256;
constexpr size_t kSkippedShown = 20;
constexpr size_t kAttemptsShown = 10;

// "" if the options go together.
std::string WrongImport(const ImportArguments& arguments) {
  const std::string& run = arguments.run;
  if (run.empty() || run.size() > kRunBytesMax ||
      std::any_of(run.begin(), run.end(), absl::ascii_iscntrl)) {
    return absl::StrCat("--run ", run, ": allowed are 1 to ", kRunBytesMax,
                        " bytes without control characters");
  }
  for (const std::string& file : arguments.files) {
    std::error_code none;
    if (std::filesystem::equivalent(file, arguments.out, none)) {
      return absl::StrCat("--write ", arguments.out, ": that is one of the files to be read");
    }
  }
  return "";
}

absl::Status ImportFile(const std::string& file, const LogOptions& options, LogCapture* capture,
                        LogNotes* notes, ImportOutcome* outcome) {
  FORESHOCK_ASSIGN_OR_RETURN(const auto reader, LogReader::Open(file, options, notes));
  outcome->formats.emplace_back(reader->format_name());
  Progress progress("import", reader->bytes_total());
  LogRow row;
  for (uint64_t rows = 0;; ++rows) {
    if (rows % kRowsPerUpdate == 0) {
      progress.Update(reader->bytes_read(), absl::StrCat(file, ", step ", row.step));
    }
    FORESHOCK_ASSIGN_OR_RETURN(const bool more, reader->Next(&row));
    if (!more) return absl::OkStatus();
    FORESHOCK_RETURN_IF_ERROR(capture->Add(row));
  }
}

absl::StatusOr<ImportOutcome> ImportFiles(const ImportArguments& arguments, ScalarNames* names,
                                          LogNotes* notes) {
  FORESHOCK_ASSIGN_OR_RETURN(const auto writer, capture::CaptureWriter::Create(arguments.out));
  LogCapture capture(arguments.run, names, writer.get(), notes);
  ImportOutcome outcome;
  for (const std::string& file : arguments.files) {
    FORESHOCK_RETURN_IF_ERROR(ImportFile(file, arguments.log, &capture, notes, &outcome));
  }
  FORESHOCK_RETURN_IF_ERROR(capture.Finish());
  outcome.totals = capture.totals();
  outcome.scalars = names->found();
  if (outcome.totals.steps == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no row with a step and a number in ", absl::StrJoin(arguments.files, ", "), ", read as ",
        absl::StrJoin(outcome.formats, ", "), "; --format says otherwise",
        notes->not_understood > 0 ? absl::StrCat("; ", notes->first_not_understood) : ""));
  }
  if (const auto absent = names->NotFound(); !absent.empty()) {
    std::vector<std::string> columns;
    for (const auto& [column, scalar] : outcome.scalars) columns.push_back(column);
    return absl::InvalidArgumentError(absl::StrCat(
        "--map ", absent.front(), ": no column has this name; the columns with numbers are `",
        absl::StrJoin(columns, "`, `"), "`"));
  }
  FORESHOCK_RETURN_IF_ERROR(writer->Commit());
  return outcome;
}

void PrintImport(const ImportArguments& arguments, const ImportOutcome& outcome,
                 const LogNotes& notes) {
  const Terminal out(stdout);
  const LogTotals& totals = outcome.totals;
  Say("%s %s: %s in %s, %s, from %s, in %s\n", out.Paint(Style::kGreen, "✓"),
      out.Paint(Style::kBold, arguments.run), Plural(totals.steps, "step"),
      Plural(totals.attempts.size(), "attempt"), Plural(outcome.scalars.size(), "scalar"),
      Plural(arguments.files.size(), "file"), arguments.out);
  for (size_t i = 0; i < std::min(totals.attempts.size(), kAttemptsShown); ++i) {
    const LogAttempt& attempt = totals.attempts[i];
    Say("  attempt %zu  steps %lld to %lld, from %s\n", i + 1,
        static_cast<long long>(attempt.first_step), static_cast<long long>(attempt.last_step),
        attempt.where);
  }
  if (totals.attempts.size() > kAttemptsShown) {
    Say("  and %zu more attempts\n", totals.attempts.size() - kAttemptsShown);
  }
  for (const auto& [column, scalar] : outcome.scalars) {
    Say("  train.%s is %s\n", scalar, column);
  }
  size_t shown = 0;
  for (const auto& [column, why] : notes.skipped) {
    if (shown++ == kSkippedShown) break;
    Say("  left out: %s\n", absl::StrCat(column, ": ", why));
  }
  if (notes.skipped.size() > kSkippedShown) {
    Say("  left out: %zu more\n", notes.skipped.size() - kSkippedShown);
  }
  if (totals.nonfinite > 0) {
    Say("  not finite: %s; the first: %s\n", Plural(totals.nonfinite, "value"),
        totals.first_nonfinite);
  }
  if (totals.skipped_steps > 0) {
    Say("  skipped by the optimizer: %s\n", Plural(totals.skipped_steps, "step"));
  }
  if (totals.replaced > 0) {
    Say("  given again for the same step: %s; the last counts\n", Plural(totals.replaced, "value"));
  }
  if (notes.other_lines > 0) {
    Say("  other text: %s\n", Plural(notes.other_lines, "line"));
  }
  if (notes.not_understood > 0) {
    Say("  %s: %s; the first: %s\n", out.Paint(Style::kYellow, "not understood"),
        Plural(notes.not_understood, "line"), notes.first_not_understood);
  }
}

void PrintImportAsJson(const ImportArguments& arguments, const ImportOutcome& outcome,
                       const LogNotes& notes) {
  const LogTotals& totals = outcome.totals;
  nlohmann::json attempts = nlohmann::json::array();
  for (const LogAttempt& attempt : totals.attempts) {
    attempts.push_back({{"first_step", attempt.first_step},
                        {"last_step", attempt.last_step},
                        {"steps", attempt.steps},
                        {"where", attempt.where}});
  }
  nlohmann::json scalars = nlohmann::json::object();
  for (const auto& [column, scalar] : outcome.scalars) scalars[scalar] = column;
  const nlohmann::json answer = {{"run", arguments.run},
                                 {"capture", arguments.out},
                                 {"files", arguments.files},
                                 {"formats", outcome.formats},
                                 {"steps", totals.steps},
                                 {"attempts", attempts},
                                 {"scalars", scalars},
                                 {"left_out", notes.skipped},
                                 {"nonfinite", totals.nonfinite},
                                 {"first_nonfinite", totals.first_nonfinite},
                                 {"skipped_steps", totals.skipped_steps},
                                 {"replaced", totals.replaced},
                                 {"other_lines", notes.other_lines},
                                 {"not_understood", notes.not_understood},
                                 {"first_not_understood", notes.first_not_understood}};
  // A log may have any bytes in a name.
  SayExact(
      absl::StrCat(answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
}

int Import(const Settings& settings, ImportArguments arguments) {
  const auto fail = [](int code, absl::string_view message) {
    SayError("foreshock import: %s\n", message);
    return code;
  };
  if (arguments.run.empty()) {
    arguments.run = std::filesystem::path(arguments.files.front()).stem().string();
  }
  if (const std::string wrong = WrongImport(arguments); !wrong.empty()) return fail(kUsage, wrong);
  absl::StatusOr<ScalarNames> names = ScalarNames::Create(arguments.map);
  if (!names.ok()) return fail(kUsage, names.status().message());
  LogNotes notes;
  const auto outcome = ImportFiles(arguments, &*names, &notes);
  if (!outcome.ok()) return fail(kFinding, outcome.status().message());
  if (settings.output == Output::kJson) {
    PrintImportAsJson(arguments, *outcome, notes);
  } else {
    PrintImport(arguments, *outcome, notes);
  }
  return kOk;
}

}  // namespace

void AddImport(CLI::App& app, Program& program) {
  static const std::map<std::string, LogFormat> kFormats = {{"auto", LogFormat::kAuto},
                                                            {"megatron", LogFormat::kMegatron},
                                                            {"jsonl", LogFormat::kJsonl},
                                                            {"json", LogFormat::kJson},
                                                            {"csv", LogFormat::kCsv}};
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* verb =
      app.add_subcommand("import", "Turn a training's own log of scalars into a capture");
  verb->add_option("FILE", arguments->files, "logs of one run, in the order of their steps")
      ->required();
  verb->add_option("--write,-w", arguments->out, "the capture")
      ->required()
      ->type_name("OUT.fscap|OUT.jsonl");
  verb->add_option("--format", arguments->log.format,
                   "auto (by the content), megatron, jsonl, json or csv")
      ->transform(CLI::CheckedTransformer(kFormats, CLI::ignore_case).description(""))
      ->type_name("FORMAT")
      ->default_str("auto");
  verb->add_option("--run", arguments->run, "the run's name; default: the first file's")
      ->type_name("NAME");
  verb->add_option("--step-key", arguments->log.step_key,
                   "column of the step; default: step, global_step, iteration, ...")
      ->type_name("COLUMN");
  verb->add_option("--time-key", arguments->log.time_key,
                   "column of the time, in seconds since 1970 or a date; default: timestamp, "
                   "wall_time, ...")
      ->type_name("COLUMN");
  verb->add_option("--map", arguments->map,
                   "scalars by another name: \"Value=loss,my norm=grad_norm\"")
      ->type_name("COLUMN=NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
  AddOutputOption(*verb, program);
  verb->footer(
      "Reads Megatron-LM's text log, JSONL (one object a line, nested ones as train/loss) and CSV\n"
      "with a header row. Usual columns get the names that the rules know (\"lm loss\" is loss);\n"
      "docs/import.md has the table. A step that goes back begins a new attempt; NaN and Inf are\n"
      "kept. TensorBoard event files are not read: export their scalars to CSV or JSONL first\n"
      "(docs/import.md shows how).\n"
      "Exit code: 1 if a file cannot be read or has no row, and then nothing is written.\n"
      "Examples:\n"
      "  foreshock import slurm-1.out slurm-2.out -w exp-42.fscap --run exp-42\n"
      "  foreshock import metrics.jsonl -w run.fscap --step-key trainer/global_step\n"
      "  foreshock import loss.csv -w run.fscap --map Value=loss --time-key \"Wall time\"\n"
      "  foreshock rules backtest rules/default.yaml rules/signatures.yaml -c run.fscap");
  verb->callback(
      [&program, arguments] { program.exit_code = Import(program.settings, *arguments); });
}

}  // namespace foreshock::cli
