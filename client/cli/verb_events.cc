// foreshock events RUN: what was declared about a run (warm-up end, checkpoints, resumes).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"
#include "client/cli/table.h"

namespace foreshock::cli {
namespace {

int ListEvents(const Settings& settings, const std::string& run) {
  Connection daemon(settings);
  v1::ListEventsRequest request;
  request.set_run(run);
  v1::ListEventsResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.query().ListEvents(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
    return kOk;
  }
  if (response.events().empty()) {
    Say("No events were declared for run %s.\n", run);
    return kOk;
  }
  Table table({{"step", Align::kRight},
               {"attempt", Align::kRight},
               {"event"},
               {"name"},
               {"detail"},
               {"time"}});
  for (const v1::RunEvent& event : response.events()) {
    table.AddRow({absl::StrCat(event.event().step()), absl::StrCat(event.attempt()),
                  KindName(event.event().kind()), event.event().name(), event.event().detail(),
                  LocalTime(event.time_unix_ns())});
  }
  SayLines(table.Render(Terminal(stdout)));
  return kOk;
}

}  // namespace

void AddEvents(CLI::App& app, Program& program) {
  auto run = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("events", "Declared changes of a run: phases, checkpoints");
  verb->add_option("RUN", *run, "the run's name")->required();
  AddConnectionOptions(*verb, program);
  verb->footer("Example:\n  foreshock events exp-42 -o json");
  verb->callback([&program, run] { program.exit_code = ListEvents(program.settings, *run); });
}

}  // namespace foreshock::cli
