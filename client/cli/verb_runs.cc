// foreshock runs: the runs the daemon knows, one of them with its attempts, and what is to become
// of one: pinned or deleted.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/firing.h"
#include "client/cli/format.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"
#include "client/cli/table.h"

namespace foreshock::cli {
namespace {

std::string StepOrDash(bool has, int64_t step) { return has ? absl::StrCat(step) : "-"; }

std::string PaintedState(v1::RunState state, const Terminal& out) {
  const Style style = state == v1::RUN_STATE_LIVE     ? Style::kGreen
                      : state == v1::RUN_STATE_FAILED ? Style::kRed
                                                      : Style::kPlain;
  return out.Paint(style, StateName(state));
}

// How many of the rules have judged the run: silence of the others is not health.
std::string JudgedOf(const v1::Run& run) {
  if (run.attempts().empty() || !run.attempts().rbegin()->has_judged()) return "-";
  const v1::Judged& judged = run.attempts().rbegin()->judged();
  return absl::StrCat(judged.rules_judging(), "/", judged.rules());
}

using Firing = std::map<std::string, FiringCounts>;

FiringCounts FiringOf(const Firing& firing, const v1::Run& run) {
  const auto counts = firing.find(run.name());
  return counts == firing.end() ? FiringCounts{} : counts->second;
}

void PrintRuns(const v1::ListRunsResponse& response, const Firing& firing,
               const std::string& prefix) {
  const Terminal out(stdout);
  if (response.runs().empty() && !prefix.empty()) {
    Say("No run's name begins with '%s'. All there are: foreshock runs\n", prefix);
    return;
  }
  if (response.runs().empty()) {
    Say("No runs yet. Push one: foreshock replay FILE.fscap\n");
    return;
  }
  Table table({{"run"},
               {"state"},
               {"att", Align::kRight},
               {"step", Align::kRight},
               {"series", Align::kRight},
               {"judged", Align::kRight},
               {"firing", Align::kRight},
               {"info", Align::kRight}});
  for (const v1::Run& run : response.runs()) {
    const FiringCounts counts = FiringOf(firing, run);
    table.AddRow({out.Paint(Style::kBold, run.name()), PaintedState(run.state(), out),
                  absl::StrCat(run.attempts_size()),
                  StepOrDash(run.has_last_step(), run.last_step()), FormatCount(run.series()),
                  JudgedOf(run), FiringText(counts), absl::StrCat(counts.info)});
  }
  SayLines(table.Render(out));
}

void PrintRun(const v1::Run& run, const FiringCounts& counts) {
  const Terminal out(stdout);
  const v1::ModelShape& model = run.model();
  Say("%s  %s, %s series, %s critical, %s and %s firing\n", out.Paint(Style::kBold, run.name()),
      PaintedState(run.state(), out), FormatCount(run.series()), FormatCount(counts.critical),
      Plural(counts.warning, "warning"), Plural(counts.info, "info"));
  Say("model: %u layers, %u heads x %u, hidden %u, %u experts, top %u\n", model.layers(),
      model.heads(), model.head_dim(), model.hidden_size(), model.experts(), model.top_k());
  for (const auto& [key, value] : run.labels()) {
    Say("label: %s = %s\n", key, value);
  }
  if (!run.attempts().empty() && run.attempts().rbegin()->has_judged()) {
    Say("judged: %s\n", FormatJudged(run.attempts().rbegin()->judged()));
  }
  Say("\n");
  Table table({{"attempt", Align::kRight},
               {"state"},
               {"parent", Align::kRight},
               {"first step", Align::kRight},
               {"last step", Align::kRight},
               {"ranks", Align::kRight},
               {"world", Align::kRight},
               {"started"},
               {"launch"}});
  for (const v1::Attempt& attempt : run.attempts()) {
    table.AddRow({absl::StrCat(attempt.number()), PaintedState(attempt.state(), out),
                  attempt.has_parent() ? absl::StrCat(attempt.parent()) : "-",
                  StepOrDash(attempt.has_first_step(), attempt.first_step()),
                  StepOrDash(attempt.has_last_step(), attempt.last_step()),
                  absl::StrCat(attempt.ranks_connected()), absl::StrCat(attempt.world_size()),
                  LocalTime(attempt.started_unix_ns()), attempt.launch_id()});
  }
  SayLines(table.Render(out));
}

int ListRuns(const Settings& settings, const std::string& prefix) {
  Connection daemon(settings);
  v1::ListRunsRequest request;
  request.set_name_prefix(prefix);
  v1::ListRunsResponse response;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(daemon.query().ListRuns(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    const auto firing = ReadFiring(daemon, "");
    if (!firing.ok()) return daemon.Report(firing.status());
    PrintRuns(response, *firing, prefix);
  }
  return kOk;
}

int Show(const Settings& settings, const std::string& name) {
  Connection daemon(settings);
  v1::GetRunRequest request;
  request.set_run(name);
  v1::GetRunResponse response;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(daemon.query().GetRun(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    const auto firing = ReadFiring(daemon, name);
    if (!firing.ok()) return daemon.Report(firing.status());
    PrintRun(response.run(), FiringOf(*firing, response.run()));
  }
  return kOk;
}

int Pin(const Settings& settings, const std::string& name, bool pinned) {
  Connection daemon(settings);
  v1::PinRunRequest request;
  request.set_run(name);
  request.set_pinned(pinned);
  v1::PinRunResponse response;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(daemon.admin().PinRun(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    Say("%s %s\n", name, pinned ? "is pinned: retention leaves it alone" : "is no longer pinned");
  }
  return kOk;
}

int Delete(const Settings& settings, const std::string& name, bool sure) {
  if (!sure) {
    SayError(
        "foreshock: this deletes everything of run '%s' for good, its alerts too; say "
        "--yes if that is meant\n",
        name);
    return kUsage;
  }
  Connection daemon(settings);
  v1::DeleteRunRequest request;
  request.set_run(name);
  v1::DeleteRunResponse response;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(daemon.admin().DeleteRun(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    Say("%s is deleted, with %s series\n", name, FormatCount(response.series_deleted()));
  }
  return kOk;
}

}  // namespace

void AddRuns(CLI::App& app, Program& program) {
  CLI::App* runs = app.add_subcommand("runs", "The runs the daemon knows, newest first");
  runs->require_subcommand(0, 1);
  AddConnectionOptions(*runs, program);
  runs->footer(
      "Examples:\n"
      "  foreshock runs                      all runs\n"
      "  foreshock runs list --prefix exp-   those whose name begins so\n"
      "  foreshock runs show exp-42          one run, its model and its attempts\n"
      "  foreshock runs pin exp-42           retention never drops it\n"
      "  foreshock runs delete exp-7 --yes   all of it, for good");

  auto prefix = std::make_shared<std::string>();
  CLI::App* list = runs->add_subcommand("list", "All runs (what `foreshock runs` does too)");
  list->add_option("--prefix", *prefix, "only runs whose name begins so");
  AddConnectionOptions(*list, program);

  auto name = std::make_shared<std::string>();
  CLI::App* show = runs->add_subcommand("show", "One run with its attempts");
  show->add_option("RUN", *name, "the run's name")->required();
  AddConnectionOptions(*show, program);

  CLI::App* pin = runs->add_subcommand("pin", "Keep a run whatever retention says");
  CLI::App* unpin = runs->add_subcommand("unpin", "Let retention have a run again");
  CLI::App* erase = runs->add_subcommand("delete", "Delete a run that no rank is connected to");
  for (CLI::App* verb : {pin, unpin, erase}) {
    verb->add_option("RUN", *name, "the run's name")->required();
    AddConnectionOptions(*verb, program);
  }
  auto sure = std::make_shared<bool>(false);
  erase->add_flag("--yes", *sure, "needed: nothing brings it back");
  pin->footer("Example:\n  foreshock runs pin exp-42");
  unpin->footer("Example:\n  foreshock runs unpin exp-42");
  erase->footer("Example:\n  foreshock runs delete exp-7 --yes");

  runs->callback([&program, prefix, name, sure, show, pin, unpin, erase] {
    const Settings& settings = program.settings;
    program.exit_code = show->parsed()    ? Show(settings, *name)
                        : pin->parsed()   ? Pin(settings, *name, true)
                        : unpin->parsed() ? Pin(settings, *name, false)
                        : erase->parsed() ? Delete(settings, *name, *sure)
                                          : ListRuns(settings, *prefix);
  });
}

}  // namespace foreshock::cli
