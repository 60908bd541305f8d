// foreshock export RUN [INDICATOR] -w FILE: stored points for other programs.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/export_rows.h"
#include "client/cli/format.h"
#include "client/cli/one_of.h"
#include "client/cli/points.h"
#include "client/cli/points_options.h"
#include "client/cli/progress.h"
#include "client/cli/say.h"
#include "daemon/base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"

namespace foreshock::cli {
namespace {

struct ExportPointsOptions {
  PointsOptions points;
  std::string out;  // empty: stdout
  ExportFormat format = ExportFormat::kCsv;
};

// What the file's name says; CSV for stdout.
absl::StatusOr<ExportFormat> FormatOfName(const std::string& path) {
  if (path.empty() || absl::EndsWith(path, ".csv")) return ExportFormat::kCsv;
  if (absl::EndsWith(path, ".jsonl")) return ExportFormat::kJsonl;
  return absl::InvalidArgumentError(
      absl::StrCat("--write ", path,
                   ": the name's ending says no format; known are .csv and .jsonl, or say --format "
                   "csv or --format jsonl"));
}

// A file that appears under its name when it is whole, or stdout.
class ExportFile {
 public:
  static absl::StatusOr<ExportFile> Open(const std::string& path) {
    if (path.empty()) return ExportFile(stdout, "");
    std::FILE* file = std::fopen(absl::StrCat(path, ".partial").c_str(), "w");
    if (file == nullptr) return Failed(path);
    return ExportFile(file, path);
  }
  ~ExportFile() {
    if (file_ == nullptr || path_.empty()) return;
    std::fclose(file_);
    std::remove(absl::StrCat(path_, ".partial").c_str());
  }
  ExportFile(ExportFile&& other) noexcept
      : file_(std::exchange(other.file_, nullptr)), path_(std::move(other.path_)) {}
  ExportFile& operator=(ExportFile&&) = delete;

  absl::Status Write(absl::string_view text) {
    const bool whole = std::fwrite(text.data(), 1, text.size(), file_) == text.size();
    return whole ? absl::OkStatus() : Failed(path_);
  }
  absl::Status Close() {
    std::FILE* file = std::exchange(file_, nullptr);
    if (path_.empty()) return std::fflush(file) == 0 ? absl::OkStatus() : Failed("");
    const std::string partial = absl::StrCat(path_, ".partial");
    if (std::fclose(file) != 0 || std::rename(partial.c_str(), path_.c_str()) != 0) {
      const absl::Status failed = Failed(path_);
      std::remove(partial.c_str());
      return failed;
    }
    return absl::OkStatus();
  }

 private:
  ExportFile(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  static absl::Status Failed(const std::string& path) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path.empty() ? "the output" : path,
                                               ": ", std::strerror(errno)));
  }

  std::FILE* file_;
  std::string path_;
};

struct Exported {
  uint64_t points = 0;
  uint64_t series = 0;
  std::optional<int64_t> downsampled_before{};
};

absl::StatusOr<Exported> ExportAll(Connection& daemon, v1::QueryPointsRequest request,
                                   ExportFormat format, uint64_t series, ExportFile* file) {
  FORESHOCK_RETURN_IF_ERROR(file->Write(ExportHeader(format)));
  Progress progress("export", series);
  Exported exported;
  v1::Series last;
  std::string rows;
  const auto write = [&](const v1::QueryPointsResponse& answer) {
    rows.clear();
    AppendRows(answer, format, &rows);
    if (!google::protobuf::util::MessageDifferencer::Equals(answer.series(), last)) {
      last = answer.series();
      ++exported.series;
    }
    exported.points += static_cast<uint64_t>(answer.points_size());
    if (answer.has_downsampled_before_step()) {
      exported.downsampled_before = answer.downsampled_before_step();
    }
    progress.Update(exported.series, Plural(exported.points, "point"));
    return file->Write(rows);
  };
  FORESHOCK_RETURN_IF_ERROR(VisitPoints(daemon, std::move(request), write));
  return exported;
}

int Export(const Settings& settings, const ExportPointsOptions& options) {
  const auto fail = [](const absl::Status& status, int code) {
    SayError("foreshock export: %s\n", std::string(status.message()));
    return code;
  };
  absl::StatusOr<v1::QueryPointsRequest> request = options.points.Request();
  if (!request.ok()) return fail(request.status(), kUsage);
  Connection daemon(settings);
  // First of all, so that a wrong run or indicator leaves no file.
  v1::ListSeriesRequest list;
  *list.mutable_selector() = request->selector();
  list.set_limit(1'000'000);
  v1::ListSeriesResponse series;
  const absl::Status listed =
      FromGrpc(daemon.query().ListSeries(daemon.Context().get(), list, &series));
  if (!listed.ok()) return daemon.Report(listed);
  if (series.series().empty()) {
    return fail(
        absl::NotFoundError(absl::StrCat("run ", options.points.run,
                                         " has no series with these conditions; `foreshock "
                                         "query ",
                                         options.points.run, " --list` shows what there is")),
        kFinding);
  }
  absl::StatusOr<ExportFile> file = ExportFile::Open(options.out);
  if (!file.ok()) return fail(file.status(), kFinding);
  const auto exported = ExportAll(daemon, *std::move(request), options.format,
                                  static_cast<uint64_t>(series.series_size()), &*file);
  if (!exported.ok()) return daemon.Report(exported.status());
  if (const absl::Status closed = file->Close(); !closed.ok()) return fail(closed, kFinding);
  if (exported->downsampled_before.has_value()) {
    SayError(
        "foreshock export: raw points before step %s were downsampled and are not in it;\n"
        "  `foreshock query --buckets` shows what is left of them\n",
        absl::StrCat(*exported->downsampled_before));
  }
  if (!options.out.empty()) {
    Say("wrote %s of %s series to %s\n", Plural(exported->points, "point"),
        FormatCount(exported->series), options.out);
  }
  return kOk;
}

}  // namespace

void AddExport(CLI::App& app, Program& program) {
  static const std::map<std::string, ExportFormat> kFormats = {{"csv", ExportFormat::kCsv},
                                                               {"jsonl", ExportFormat::kJsonl}};
  auto options = std::make_shared<ExportPointsOptions>();
  CLI::App* verb = app.add_subcommand("export", "Write stored points as CSV or JSONL");
  AddPointsOptions(*verb, &options->points);
  verb->add_option("--write,-w", options->out, "write to this file instead of the terminal")
      ->type_name("FILE");
  CLI::Option* format =
      verb->add_option("--format", options->format,
                       "csv or jsonl; default: as the file is called (.csv, .jsonl), csv to the "
                       "terminal")
          ->transform(OneOf(kFormats))
          ->type_name("FORMAT");
  AddServerOptions(*verb, program);
  verb->footer(
      "A line per point, series after series: run, attempt, step, indicator, layer, unit, "
      "unit_id,\n"
      "unit_name, value, flags. Without INDICATOR all series. The file appears when it is whole.\n"
      "Parquet and Arrow are not written: Debian 12 has no library for them; both read CSV, e.g.\n"
      "  duckdb -c \"copy (from 'exp-42.csv') to 'exp-42.parquet'\"\n"
      "Examples:\n"
      "  foreshock export exp-42 -w exp-42.csv\n"
      "  foreshock export exp-42 'router.*' --match 'layer=~\"0|1\"' --steps 1000:2000 -w "
      "gate.jsonl\n"
      "  foreshock export exp-42 train.loss | head");
  verb->callback([&program, options, format] {
    if (format->empty()) {
      const auto named = FormatOfName(options->out);
      if (!named.ok()) throw CLI::ValidationError(std::string(named.status().message()));
      options->format = *named;
    }
    program.exit_code = Export(program.settings, *options);
  });
}

}  // namespace foreshock::cli
