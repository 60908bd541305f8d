// foreshock status: how the daemon is.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/daemon_metrics.h"
#include "client/cli/format.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "daemon/base/format_bytes.h"

namespace foreshock::cli {
namespace {

std::string NotifierState(const NotifierMetrics& notifier, const Terminal& out) {
  const std::string text = NotifierText(notifier, absl::Now());
  switch (notifier.health()) {
    case NotifierMetrics::Health::kGood:
      return text;
    case NotifierMetrics::Health::kTrouble:
      return out.Paint(Style::kYellow, text);
    case NotifierMetrics::Health::kBad:
      return out.Paint(Style::kRed, text);
  }
  return text;
}

void Print(const v1::GetStatusResponse& status, const std::string& server,
           const absl::StatusOr<DaemonMetrics>& metrics) {
  const Terminal out(stdout);
  const auto row = [&](const char* label, const std::string& text) {
    Say("%s%s\n", out.Paint(Style::kDim, absl::StrFormat("%-11s", label)), text);
  };
  const std::string state = status.draining() ? out.Paint(Style::kYellow, "draining")
                            : status.ready()  ? out.Paint(Style::kGreen, "ready")
                                              : out.Paint(Style::kRed, "not ready");
  row("daemon", absl::StrCat("foreshockd ", status.version(), " at ", server, ", ", state));
  row("up", absl::StrCat(ShortDuration(absl::Now() - absl::FromUnixNanos(status.started_unix_ns())),
                         ", since ", LocalTime(status.started_unix_ns())));
  row("runs", absl::StrCat(FormatCount(status.runs()), ", ", FormatCount(status.series()),
                           " series, ", Plural(status.streams(), "stream"), " open, ",
                           Plural(status.open_steps(), "step"), " open"));
  row("ingested", absl::StrCat(Plural(status.reports_committed(), "report"), ", ",
                               Plural(status.reports_duplicate(), "duplicate"), ", ",
                               FormatCount(status.summaries_rejected()), " summaries rejected, ",
                               Plural(status.points_written(), "point"), " written"));
  row("rules", absl::StrCat(FormatCount(status.rules_loaded()), " loaded, last reload ",
                            status.config_last_reload_successful()
                                ? "succeeded"
                                : out.Paint(Style::kRed, "FAILED, the old ones are in force")));
  row("alerts", absl::StrCat(FormatCount(status.alerts_firing()), " firing"));
  row("store",
      absl::StrCat(status.data_directory(), ", ", base::FormatBytes(status.store_bytes()), ", ",
                   status.store_writable() ? "writable" : out.Paint(Style::kRed, "NOT WRITABLE")));
  if (!metrics.ok()) {
    row("notifiers",
        absl::StrCat("not known: ", metrics.status().message(), "; --http says where"));
  } else {
    if (metrics->notifiers.empty())
      row("notifiers", out.Paint(Style::kYellow, "none: nobody is told"));
    for (const NotifierMetrics& notifier : metrics->notifiers) {
      row(&notifier == &metrics->notifiers.front() ? "notifiers" : "",
          NotifierState(notifier, out));
    }
    row("silences", absl::StrCat(FormatCount(metrics->silences), " in force"));
  }
  row("memory", absl::StrCat(base::FormatBytes(status.resident_bytes()), " resident"));
}

// What GetStatus answers, and who is told.
nlohmann::ordered_json JsonOf(const v1::GetStatusResponse& status,
                              const absl::StatusOr<DaemonMetrics>& metrics) {
  auto json = nlohmann::ordered_json::parse(ToJson(status), nullptr, /*allow_exceptions=*/false);
  if (!metrics.ok()) {
    json["notifiers"] = nullptr;
    json["notifiers_unknown"] = std::string(metrics.status().message());
    return json;
  }
  json["notifiers"] = nlohmann::ordered_json::array();
  for (const NotifierMetrics& notifier : metrics->notifiers) {
    json["notifiers"].push_back({{"name", notifier.name},
                                 {"told", notifier.told},
                                 {"refused", notifier.refused},
                                 {"pending", notifier.pending},
                                 {"oldest_pending_s", notifier.oldest_pending_s},
                                 {"last_success_unix_s", notifier.last_success_unix_s},
                                 {"last_failure_unix_s", notifier.last_failure_unix_s}});
  }
  json["silences"] = metrics->silences;
  return json;
}

int Status(const Settings& settings, const std::string& http) {
  Connection daemon(settings);
  v1::GetStatusResponse response;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(daemon.query().GetStatus(context.get(), {}, &response));
  if (!status.ok()) return daemon.Report(status);
  const absl::StatusOr<DaemonMetrics> metrics =
      ReadDaemonMetrics(http, settings.credentials, settings.timeout);
  if (settings.output == Output::kJson) {
    SayExact(absl::StrCat(JsonOf(response, metrics).dump(1), "\n"));
  } else {
    Print(response, settings.server, metrics);
  }
  return kOk;
}

}  // namespace

void AddStatus(CLI::App& app, Program& program) {
  CLI::App* verb = app.add_subcommand("status", "How the daemon is, in numbers");
  auto http = std::make_shared<std::string>(kDefaultHttp);
  AddHttpOption(*verb, http.get());
  AddConnectionOptions(*verb, program);
  verb->footer(
      "Who is told of alerts comes from /metrics; JSON has it below `notifiers`, null where that\n"
      "cannot be read, beside what GetStatus answers.\n"
      "Examples:\n"
      "  foreshock status\n"
      "  foreshock status --server 10.0.0.7:7317 -o json");
  verb->callback([&program, http] { program.exit_code = Status(program.settings, *http); });
}

}  // namespace foreshock::cli
