// foreshock alerts: what fires, and what fired.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/alert_block.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/one_of.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"

namespace foreshock::cli {
namespace {

struct AlertsOptions {
  std::string run;
  v1::AlertState state = v1::ALERT_STATE_UNSPECIFIED;
  uint32_t limit = 0;
  bool brief = false;
  bool exit_code = false;
};

int ListAlerts(const Settings& settings, const AlertsOptions& options) {
  Connection daemon(settings);
  v1::ListAlertsRequest request;
  request.set_run(options.run);
  request.set_state(options.state);
  request.set_limit(options.limit);
  v1::ListAlertsResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.query().ListAlerts(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  uint64_t firing = 0;
  for (const v1::Alert& alert : response.alerts()) {
    if (alert.state() == v1::ALERT_STATE_FIRING) ++firing;
  }
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    const Terminal out(stdout);
    if (response.alerts().empty()) Say("No alerts.\n");
    for (const v1::Alert& alert : response.alerts()) {
      if (options.brief) {
        Say("%s  %s\n", AlertLine(alert, out), alert.run());
      } else {
        SayLines(absl::StrCat(AlertBlock(alert, out), "\n"));
      }
    }
  }
  return options.exit_code && firing > 0 ? kFinding : kOk;
}

}  // namespace

void AddAlerts(CLI::App& app, Program& program) {
  static const std::map<std::string, v1::AlertState> kStates = {
      {"any", v1::ALERT_STATE_UNSPECIFIED},
      {"pending", v1::ALERT_STATE_PENDING},
      {"firing", v1::ALERT_STATE_FIRING},
      {"resolved", v1::ALERT_STATE_RESOLVED}};
  auto options = std::make_shared<AlertsOptions>();
  CLI::App* alerts =
      app.add_subcommand("alerts", "Alerts, firing first, then the gravest, then newest");
  alerts->require_subcommand(0, 1);
  CLI::App* list = alerts->add_subcommand("list", "What `foreshock alerts` does too");
  for (CLI::App* verb : {alerts, list}) {
    verb->add_option("--run", options->run, "only those of this run")->type_name("RUN");
    verb->add_option("--state", options->state, "any, pending, firing or resolved")
        ->transform(OneOf(kStates))
        ->type_name("STATE");
    verb->add_option("--limit", options->limit, "at most so many; 0: the daemon's limit")
        ->type_name("N");
    verb->add_flag("--brief", options->brief, "one line an alert");
    verb->add_flag("--exit-code", options->exit_code, "exit 1 when one of them is firing");
    AddConnectionOptions(*verb, program);
  }
  AddAlertActions(*alerts, program);
  alerts->footer(
      "Examples:\n"
      "  foreshock alerts                                  all, with their evidence\n"
      "  foreshock alerts --run exp-42 --state firing --brief\n"
      "  foreshock alerts --state firing --exit-code || page_me\n"
      "  foreshock alerts ack 3fa0 --by ada                someone is on it\n"
      "  foreshock alerts silence run=exp-42 --for 2h --by ada");
  alerts->callback([&program, options, alerts, list] {
    const std::vector<CLI::App*> verbs = alerts->get_subcommands();
    if (!verbs.empty() && verbs.front() != list) return;  // an action, done
    program.exit_code = ListAlerts(program.settings, *options);
  });
}

}  // namespace foreshock::cli
