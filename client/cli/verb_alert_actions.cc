// foreshock alerts ack|accept|silence|silences|unsilence: what people do about alerts.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"
#include "client/cli/table.h"

namespace foreshock::cli {
namespace {

struct ActionOptions {
  std::string id;
  std::vector<std::string> matchers;
  absl::Duration duration;
  std::string by;
  std::string why;
  bool expired = false;
};

int Acknowledge(const Settings& settings, const ActionOptions& options) {
  Connection daemon(settings);
  v1::AcknowledgeAlertRequest request;
  request.set_id(options.id);
  request.set_by(options.by);
  request.set_why(options.why);
  v1::AcknowledgeAlertResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.admin().AcknowledgeAlert(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    const v1::Alert& alert = response.alert();
    Say("%s of run %s is yours (%s); it is told again only when it is graver or over.\n",
        alert.rule(), alert.run(), options.by);
  }
  return kOk;
}

int Accept(const Settings& settings, const ActionOptions& options) {
  Connection daemon(settings);
  v1::AcceptAlertRequest request;
  request.set_id(options.id);
  request.set_by(options.by);
  request.set_why(options.why);
  v1::AcceptAlertResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.admin().AcceptAlert(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    const v1::Alert& alert = response.alert();
    Say("What %s of run %s shows since step %d is its new normal. It ends at the next step; "
        "`foreshock events %s` keeps who said so.\n",
        alert.rule(), alert.run(), alert.firing_step(), alert.run());
  }
  return kOk;
}

int Silence(const Settings& settings, const ActionOptions& options) {
  Connection daemon(settings);
  v1::SilenceAlertsRequest request;
  request.mutable_matchers()->Assign(options.matchers.begin(), options.matchers.end());
  request.set_duration_ns(absl::ToInt64Nanoseconds(options.duration));
  request.set_by(options.by);
  request.set_why(options.why);
  v1::SilenceAlertsResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.admin().SilenceAlerts(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    Say("Silence %s is in force until %s: %s\n", response.silence().id(),
        LocalTime(response.silence().ends_unix_ns()), absl::StrJoin(options.matchers, " "));
  }
  return kOk;
}

int ListSilences(const Settings& settings, const ActionOptions& options) {
  Connection daemon(settings);
  v1::ListSilencesRequest request;
  request.set_expired(options.expired);
  v1::ListSilencesResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.query().ListSilences(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
    return kOk;
  }
  if (response.silences().empty()) {
    Say("No silences.\n");
    return kOk;
  }
  Table table({{"id"}, {"until"}, {"by"}, {"why"}, {"matchers"}});
  for (const v1::Silence& silence : response.silences()) {
    table.AddRow({silence.id(), LocalTime(silence.ends_unix_ns()), silence.by(), silence.why(),
                  absl::StrJoin(silence.matchers(), " ")});
  }
  SayLines(table.Render(Terminal(stdout)));
  return kOk;
}

int Unsilence(const Settings& settings, const ActionOptions& options) {
  Connection daemon(settings);
  v1::ExpireSilenceRequest request;
  request.set_id(options.id);
  v1::ExpireSilenceResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.admin().ExpireSilence(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    Say("Silence %s has ended.\n", options.id);
  }
  return kOk;
}

void AddByAndWhy(CLI::App* verb, ActionOptions* options) {
  if (const char* user = std::getenv("USER"); user != nullptr) options->by = user;
  verb->add_option("--by", options->by, "who you are; $USER if that is set")
      ->type_name("NAME")
      ->required(options->by.empty());
  verb->add_option("--why", options->why, "your reason, for the others")->type_name("TEXT");
}

// "2h", "1h30m", "7d".
std::string ReadDuration(const std::string& text, absl::Duration* duration) {
  const bool days = !text.empty() && text.back() == 'd';
  const std::string hours = days ? absl::StrCat(text.substr(0, text.size() - 1), "h") : text;
  if (!absl::ParseDuration(hours, duration) || *duration <= absl::ZeroDuration()) {
    return absl::StrCat("'", text, "' is no duration; allowed are 30m, 2h, 1h30m, 7d");
  }
  if (days) *duration *= 24;
  return "";
}

}  // namespace

void AddAlertActions(CLI::App& alerts, Program& program) {
  using Action = int (*)(const Settings&, const ActionOptions&);
  const auto add = [&](const char* name, const char* help, Action action) {
    auto options = std::make_shared<ActionOptions>();
    CLI::App* verb = alerts.add_subcommand(name, help);
    AddConnectionOptions(*verb, program);
    verb->callback(
        [&program, options, action] { program.exit_code = action(program.settings, *options); });
    return std::pair(verb, options.get());
  };
  {
    const auto [verb, options] =
        add("ack", "Take an alert on: people are told no more of it", Acknowledge);
    verb->add_option("ID", options->id, "the alert's id, or its beginning")->required();
    AddByAndWhy(verb, options);
    verb->footer("Example:\n  foreshock alerts ack 3fa0 --by ada --why \"rolling back\"");
  }
  {
    const auto [verb, options] =
        add("accept", "This level is the new normal: the alert ends", Accept);
    verb->add_option("ID", options->id, "the alert's id, or its beginning")->required();
    AddByAndWhy(verb, options);
    verb->footer(
        "The series that fire are judged against their present level from the next step on. An\n"
        "event of the run keeps by whom and why. Not for what has no level: a hang,\n"
        "NaN, a fixed limit.\n"
        "Example:\n  foreshock alerts accept 3fa0 --by ada --why \"a harder data mix\"");
  }
  {
    const auto [verb, options] =
        add("silence", "Tell nobody of alerts that match, for a while", Silence);
    verb->add_option("MATCHERS", options->matchers,
                     "all must match: label=value, label!=value, label=~regex, label!~regex")
        ->required();
    verb->add_option_function<std::string>(
            "--for", [](const std::string&) {}, "how long: 30m, 2h, 7d")
        ->type_name("DURATION")
        ->required()
        ->check([options = options](const std::string& text) {
          return ReadDuration(text, &options->duration);
        });
    AddByAndWhy(verb, options);
    verb->footer(
        "Labels: run, rule, severity, fault, indicator, attempt, layer, head, rank, unit, id, and\n"
        "those of the rule.\n"
        "Example:\n  foreshock alerts silence run=exp-42 'fault=~router_.*' --for 2h --by ada");
  }
  {
    const auto [verb, options] = add("silences", "The silences in force", ListSilences);
    verb->add_flag("--expired", options->expired, "and those of the last days");
  }
  {
    const auto [verb, options] = add("unsilence", "End a silence now", Unsilence);
    verb->add_option("ID", options->id, "the silence's id")->required();
  }
}

}  // namespace foreshock::cli
