// foreshock store: what an operator does with the store itself, asked of a running daemon or done
// to a data directory.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/print_json.h"
#include "client/cli/progress.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "daemon/base/format_bytes.h"
#include "daemon/store/disk_store.h"
#include "daemon/store/messages.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

struct StoreArguments {
  std::string data;  // a directory; empty: ask the daemon
  std::string name;  // of a backup on the daemon's machine
  std::string to;
  std::string backup;  // to restore
};

int ReportOffline(const absl::Status& status) {
  SayError("foreshock: %s\n", std::string(status.message()));
  return kFinding;
}

// ---- stats

std::string PerPoint(uint64_t bytes, uint64_t points) {
  return points == 0
             ? "-"
             : absl::StrFormat("%.2f", static_cast<double>(bytes) / static_cast<double>(points));
}

std::string Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-"
                    : absl::StrFormat("%.0f %%", 100.0 * static_cast<double>(part) /
                                                     static_cast<double>(whole));
}

std::string Ages(const v1::StoreRun& run) {
  if (run.oldest_unix_ns() == 0) return "-";
  const absl::Time now = absl::Now();
  return absl::StrCat(ShortDuration(now - absl::FromUnixNanos(run.oldest_unix_ns())), " to ",
                      ShortDuration(now - absl::FromUnixNanos(run.newest_unix_ns())));
}

void PrintStats(const v1::GetStoreStatsResponse& stats) {
  const Terminal out(stdout);
  Table families({{"family"},
                  {"rows", Align::kRight},
                  {"bytes of rows", Align::kRight},
                  {"on disk", Align::kRight},
                  {"in memory", Align::kRight}});
  for (const v1::StoreFamily& family : stats.families()) {
    families.AddRow(
        {family.name(), FormatCount(family.rows().rows()), base::FormatBytes(family.rows().bytes()),
         base::FormatBytes(family.disk_bytes()), base::FormatBytes(family.memory_bytes())});
  }
  SayLines(families.Render(out));
  Say("\nall files: %s\n\n", base::FormatBytes(stats.disk_bytes()));
  Table runs({{"run"},
              {"series", Align::kRight},
              {"points", Align::kRight},
              {"on disk", Align::kRight},
              {"bytes/point", Align::kRight},
              {"points/chunk", Align::kRight},
              {"open points", Align::kRight},
              {"downsampled", Align::kRight},
              {"raw from step", Align::kRight},
              {"age"}});
  for (const v1::StoreRun& run : stats.runs()) {
    const uint64_t points = run.raw_points() + run.open_points() + run.downsampled_points();
    runs.AddRow({absl::StrCat(run.name(), run.pinned() ? " (pinned)" : ""),
                 FormatCount(run.series()), FormatCount(points),
                 base::FormatBytes(run.disk_bytes()), PerPoint(run.raw().bytes(), run.raw_points()),
                 run.raw().rows() == 0 ? "-" : FormatCount(run.raw_points() / run.raw().rows()),
                 FormatCount(run.open_points()), Share(run.downsampled_points(), points),
                 run.has_raw_from() ? absl::StrCat(run.raw_from()) : "-", Ages(run)});
  }
  SayLines(runs.Render(out));
}

int Stats(const Settings& settings, const StoreArguments& arguments) {
  v1::GetStoreStatsResponse response;
  if (arguments.data.empty()) {
    Connection daemon(settings);
    const auto context = daemon.Context();
    const absl::Status status =
        FromGrpc(daemon.admin().GetStoreStats(context.get(), {}, &response));
    if (!status.ok()) return daemon.Report(status);
  } else {
    const auto store = store::OpenDiskStore({.directory = arguments.data, .read_only = true});
    if (!store.ok()) return ReportOffline(store.status());
    const absl::StatusOr<store::StoreUsage> usage = (*store)->Usage();
    if (!usage.ok()) return ReportOffline(usage.status());
    response = store::ToProto(*usage);
  }
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    PrintStats(response);
  }
  return kOk;
}

// ---- verify

// Findings as they turn up, with a bar below them.
class VerifyView {
 public:
  explicit VerifyView(Output output) : output_(output) {}

  void Add(const v1::VerifyFinding& finding) {
    if (output_ == Output::kJson) {
      findings_.push_back(nlohmann::json::parse(ToJson(finding)));
      return;
    }
    std::string line;
    for (const std::string& part : {finding.family(), finding.file(), finding.where()}) {
      if (!part.empty()) absl::StrAppend(&line, line.empty() ? "" : ", ", part);
    }
    absl::StrAppend(&line, ": ", finding.what(), "\n");
    if (bar_ != nullptr) {
      bar_->Print(line);
    } else {
      SayLines(line);
    }
  }

  void Add(const v1::VerifyProgress& progress) {
    if (bar_ == nullptr || stage_ != progress.stage()) {
      stage_ = progress.stage();
      bar_ = std::make_unique<Progress>(absl::StrCat("verify ", stage_), progress.total());
    }
    bar_->Update(progress.done(), absl::StrCat(FormatCount(progress.done()),
                                               stage_ == "files" ? " bytes" : " rows"));
  }

  // The exit code.
  int Finish(const v1::VerifyResult& result) {
    bar_.reset();
    if (output_ == Output::kJson) {
      const nlohmann::json answer = {{"findings", findings_},
                                     {"result", nlohmann::json::parse(ToJson(result))}};
      SayExact(
          absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
    } else {
      Say("%s of %s and %s read, with %s in %s: %s\n", Plural(result.files(), "file"),
          base::FormatBytes(result.file_bytes()), Plural(result.rows(), "row"),
          Plural(result.points(), "point"), Plural(result.chunks(), "chunk"),
          result.findings() == 0 ? "all is as it was written"
                                 : Plural(result.findings(), "finding"));
    }
    return result.findings() == 0 ? kOk : kFinding;
  }

 private:
  const Output output_;
  std::string stage_;
  std::unique_ptr<Progress> bar_;
  std::vector<nlohmann::json> findings_;
};

int VerifyOffline(const Settings& settings, const std::string& directory) {
  VerifyView view(settings.output);
  store::VerifyCallbacks callbacks;
  callbacks.finding = [&view](const store::VerifyFinding& finding) {
    view.Add(store::ToProto(finding));
  };
  callbacks.progress = [&view](const store::VerifyProgress& progress) {
    view.Add(store::ToProto(progress));
    return true;
  };
  const absl::StatusOr<store::VerifyResult> result = store::VerifyDirectory(directory, callbacks);
  if (!result.ok()) return ReportOffline(result.status());
  return view.Finish(store::ToProto(*result));
}

int Verify(const Settings& settings, const StoreArguments& arguments) {
  if (!arguments.data.empty()) return VerifyOffline(settings, arguments.data);
  Connection daemon(settings);
  VerifyView view(settings.output);
  grpc::ClientContext context;  // without a deadline: it takes as long as the store is large
  const auto reader = daemon.admin().VerifyStore(&context, {});
  v1::VerifyStoreResponse event;
  v1::VerifyResult result;
  while (reader->Read(&event)) {
    if (event.has_finding()) view.Add(event.finding());
    if (event.has_progress()) view.Add(event.progress());
    if (event.has_result()) result = event.result();
  }
  const absl::Status status = FromGrpc(reader->Finish());
  if (!status.ok()) return daemon.Report(status);
  return view.Finish(result);
}

// ---- backup, restore

void PrintBackup(const v1::BackupStoreResponse& backup, const char* verb, Output output) {
  if (output == Output::kJson) {
    PrintJson(backup);
    return;
  }
  Say("%s %s: backup %u of %s, %s in %s\n", verb, backup.directory(), backup.id(),
      LocalTime(backup.time_unix_s() * 1'000'000'000), base::FormatBytes(backup.bytes()),
      Plural(backup.files(), "file"));
}

v1::BackupStoreResponse ToMessage(const std::string& directory, const store::BackupInfo& info) {
  v1::BackupStoreResponse message;
  message.set_directory(directory);
  message.set_id(info.id);
  message.set_time_unix_s(info.time_unix_s);
  message.set_bytes(info.bytes);
  message.set_files(info.files);
  return message;
}

int BackupOffline(const Settings& settings, const StoreArguments& arguments) {
  std::error_code error;
  if (!std::filesystem::exists(arguments.data + "/CURRENT", error)) {
    return ReportOffline(
        absl::NotFoundError(absl::StrCat("there is no store in ", arguments.data)));
  }
  const auto store = store::OpenDiskStore({.directory = arguments.data});
  if (!store.ok()) return ReportOffline(store.status());
  const absl::StatusOr<store::BackupInfo> info = (*store)->Backup(arguments.to);
  if (!info.ok()) return ReportOffline(info.status());
  PrintBackup(ToMessage(arguments.to, *info), "written to", settings.output);
  return kOk;
}

int Backup(const Settings& settings, const StoreArguments& arguments) {
  const bool offline = !arguments.data.empty() || !arguments.to.empty();
  if (offline == !arguments.name.empty() || arguments.data.empty() != arguments.to.empty()) {
    SayErrorLines(
        "foreshock: give either NAME, for a backup by the daemon below its "
        "store.backup_directory,\n"
        "  or --data DIR --to BACKUP, for one of a directory that no daemon has open\n");
    return kUsage;
  }
  if (offline) return BackupOffline(settings, arguments);
  Connection daemon(settings);
  v1::BackupStoreRequest request;
  request.set_name(arguments.name);
  v1::BackupStoreResponse response;
  grpc::ClientContext context;  // without a deadline, as for verify
  const absl::Status status = FromGrpc(daemon.admin().BackupStore(&context, request, &response));
  if (!status.ok()) return daemon.Report(status);
  PrintBackup(response, "written to", settings.output);
  return kOk;
}

int Restore(const Settings& settings, const StoreArguments& arguments) {
  const absl::StatusOr<store::BackupInfo> info =
      store::RestoreBackup(arguments.backup, arguments.to);
  if (!info.ok()) return ReportOffline(info.status());
  PrintBackup(ToMessage(arguments.to, *info), "restored to", settings.output);
  return kOk;
}

}  // namespace

void AddStore(CLI::App& app, Program& program) {
  CLI::App* store = app.add_subcommand("store", "The store: room, checks, backups");
  store->require_subcommand(1);
  store->footer(
      "Examples:\n"
      "  foreshock store stats                                  what takes how much room\n"
      "  foreshock store verify                                 is everything as it was written?\n"
      "  foreshock store backup nightly                         while the daemon runs\n"
      "  foreshock store restore /backup/nightly --to /var/lib/fresh");
  auto arguments = std::make_shared<StoreArguments>();
  const auto data = [&](CLI::App* verb, const char* text) {
    verb->add_option("--data", arguments->data, text)->type_name("DIR");
  };

  CLI::App* stats = store->add_subcommand("stats", "What takes how much room");
  data(stats, "read this data directory instead of asking the daemon; one may have it open");
  AddConnectionOptions(*stats, program);
  stats->footer(
      "Reads all rows: seconds per GB (--timeout).\n"
      "Examples:\n"
      "  foreshock store stats --output=json\n"
      "  foreshock store stats --data /var/lib/foreshock");
  stats->callback(
      [&program, arguments] { program.exit_code = Stats(program.settings, *arguments); });

  CLI::App* verify = store->add_subcommand("verify", "Reads everything and says what is wrong");
  data(verify, "check this data directory instead of asking the daemon; one may have it open");
  AddConnectionOptions(*verify, program);
  verify->footer(
      "Changes nothing. Exit code 1 if anything is wrong.\n"
      "Examples:\n"
      "  foreshock store verify\n"
      "  foreshock store verify --data /backup/restored --output=json");
  verify->callback(
      [&program, arguments] { program.exit_code = Verify(program.settings, *arguments); });

  CLI::App* backup = store->add_subcommand("backup", "Copies the store as it is at this moment");
  backup->add_option("NAME", arguments->name,
                     "a plain name, below the daemon's store.backup_directory");
  data(backup, "of this data directory, which no daemon may have open");
  backup->add_option("--to", arguments->to, "with --data: the backup directory")
      ->type_name("BACKUP");
  AddConnectionOptions(*backup, program);
  backup->footer(
      "A second backup to the same name copies only what has changed.\n"
      "Examples:\n"
      "  foreshock store backup nightly\n"
      "  foreshock store backup --data /var/lib/foreshock --to /backup/foreshock");
  backup->callback(
      [&program, arguments] { program.exit_code = Backup(program.settings, *arguments); });

  CLI::App* restore = store->add_subcommand("restore", "Puts the newest backup into a directory");
  restore->add_option("BACKUP", arguments->backup, "the backup directory")->required();
  restore->add_option("--to", arguments->to, "a new or empty directory")
      ->type_name("DIR")
      ->required();
  AddOutputOption(*restore, program);
  restore->footer(
      "Whole or not at all. Start a daemon on it: foreshockd --data-dir DIR\n"
      "Example:\n"
      "  foreshock store restore /backup/foreshock/nightly --to /var/lib/foreshock");
  restore->callback(
      [&program, arguments] { program.exit_code = Restore(program.settings, *arguments); });
}

}  // namespace foreshock::cli
