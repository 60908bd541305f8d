// foreshock alerts: what fires, and what fired.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/alert_block.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/firing.h"
#include "client/cli/format.h"
#include "client/cli/one_of.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"
#include "client/cli/span.h"

namespace foreshock::cli {
namespace {

struct AlertsOptions {
  std::string run;
  v1::AlertStanding state = v1::ALERT_STANDING_UNSPECIFIED;
  std::string severity;
  std::vector<std::string> matchers;
  absl::Duration since;  // zero: ever
  int64_t from_step = -1;
  int64_t to_step = -1;
  uint32_t limit = 0;
  bool brief = false;
  bool exit_code = false;
};

int ListAlerts(const Settings& settings, const AlertsOptions& options) {
  Connection daemon(settings);
  v1::ListAlertsRequest request;
  request.set_run(options.run);
  if (options.state != v1::ALERT_STANDING_UNSPECIFIED) request.add_standings(options.state);
  request.set_severity_min(options.severity);
  request.mutable_matchers()->Assign(options.matchers.begin(), options.matchers.end());
  if (options.since > absl::ZeroDuration()) {
    request.set_since_unix_ns(absl::ToUnixNanos(absl::Now() - options.since));
  }
  if (options.from_step >= 0) request.set_first_step(options.from_step);
  if (options.to_step >= 0) request.set_last_step(options.to_step);
  request.set_limit(options.limit);
  v1::ListAlertsResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.query().ListAlerts(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  const int asks_for_a_person = Gravity(options.severity.empty() ? "warning" : options.severity);
  const bool fires =
      std::any_of(response.alerts().begin(), response.alerts().end(), [&](const v1::Alert& alert) {
        return alert.standing() == v1::ALERT_STANDING_FIRING &&
               Gravity(alert.severity()) >= asks_for_a_person;
      });
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
  return options.exit_code && fires ? kFinding : kOk;
}

}  // namespace

void AddAlerts(CLI::App& app, Program& program) {
  static const std::map<std::string, v1::AlertStanding> kStates = {
      {"any", v1::ALERT_STANDING_UNSPECIFIED}, {"pending", v1::ALERT_STANDING_PENDING},
      {"firing", v1::ALERT_STANDING_FIRING},   {"silenced", v1::ALERT_STANDING_SILENCED},
      {"ended", v1::ALERT_STANDING_RUN_ENDED}, {"resolved", v1::ALERT_STANDING_RESOLVED}};
  auto options = std::make_shared<AlertsOptions>();
  CLI::App* alerts =
      app.add_subcommand("alerts", "Alerts, firing first, then the most severe, then newest");
  alerts->require_subcommand(0, 1);
  CLI::App* list = alerts->add_subcommand("list", "What `foreshock alerts` does too");
  for (CLI::App* verb : {alerts, list}) {
    verb->add_option("--run", options->run, "only those of this run")->type_name("RUN");
    verb->add_option("--state", options->state,
                     "any, pending, firing, silenced, ended (it fired when its run ended) or "
                     "resolved")
        ->transform(OneOf(kStates))
        ->type_name("STATE");
    verb->add_option("--severity", options->severity, "info, warning or critical, and above")
        ->check(CLI::IsMember({"info", "warning", "critical"}).description(""))
        ->type_name("SEVERITY");
    verb->add_option("--label", options->matchers,
                     "label=value, !=, =~ or !~ of the alert, its rule or its run; all must match")
        ->type_name("MATCHER");
    verb->add_option_function<std::string>(
            "--since", [](const std::string&) {}, "firing within the last 30m, 2h, 7d")
        ->type_name("DURATION")
        ->check(ReadsSpan(&options->since));
    verb->add_option("--from-step", options->from_step, "pending or firing at this step or later")
        ->check(WholeBetween(0, std::numeric_limits<int64_t>::max()))
        ->type_name("STEP");
    verb->add_option("--to-step", options->to_step, "pending or firing at this step or earlier")
        ->check(WholeBetween(0, std::numeric_limits<int64_t>::max()))
        ->type_name("STEP");
    verb->add_option("--limit", options->limit, "at most so many; 0: the daemon's limit")
        ->type_name("N");
    verb->add_flag("--brief", options->brief, "one line an alert");
    verb->add_flag("--exit-code", options->exit_code,
                   "exit 1 when one of them is firing, of severity warning or above unless "
                   "--severity says otherwise");
    AddConnectionOptions(*verb, program);
  }
  AddAlertActions(*alerts, program);
  alerts->footer(
      "Examples:\n"
      "  foreshock alerts                                  all, with their evidence\n"
      "  foreshock alerts --run exp-42 --state firing --brief\n"
      "  foreshock alerts --label team=blue --exit-code || page_me\n"
      "  foreshock alerts --since 12h --severity warning   what the night brought\n"
      "  foreshock alerts ack 3fa0 --by ada                someone is on it\n"
      "  foreshock alerts silence run=exp-42 --for 2h --by ada");
  alerts->callback([&program, options, alerts, list] {
    const std::vector<CLI::App*> verbs = alerts->get_subcommands();
    if (!verbs.empty() && verbs.front() != list) return;  // an action, done
    program.exit_code = ListAlerts(program.settings, *options);
  });
}

}  // namespace foreshock::cli
