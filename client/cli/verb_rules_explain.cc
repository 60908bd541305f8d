// foreshock rules explain RULE RUN: what a rule in force sees in a run, and what it lacks to fire.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "client/cli/terminal.h"
#include "client/cli/verb_rules.h"

namespace foreshock::cli {
namespace {

struct ExplainArguments {
  std::string rule;
  std::string run;
  std::optional<int64_t> step;
};

std::string OrDash(bool has, double value) { return has ? FormatValue(value) : "-"; }

std::string WhereOf(const v1::ExplainedSeries& explained) {
  v1::Series series;
  if (explained.has_layer()) series.set_layer(explained.layer());
  series.set_unit(explained.unit());
  series.set_unit_id(explained.unit_id());
  series.set_unit_name(explained.unit_name());
  return FormatWhere(series);
}

void PrintSeries(const v1::ExplainResponse& response, const Terminal& out) {
  Table table({{"where"},
               {"step", Align::kRight},
               {"value", Align::kRight},
               {"baseline", Align::kRight},
               {"noise", Align::kRight},
               {"limit", Align::kRight},
               {"state"}});
  for (const v1::ExplainedSeries& series : response.series()) {
    table.AddRow({WhereOf(series), series.has_step() ? absl::StrCat(series.step()) : "-",
                  OrDash(series.has_step(), series.value()),
                  OrDash(series.has_baseline(), series.baseline()),
                  OrDash(series.has_noise(), series.noise()),
                  OrDash(series.has_limit(), series.limit()), series.missing()});
  }
  if (!table.empty()) SayLines(absl::StrCat("\n", table.Render(out)));
}

void PrintEvidence(const v1::ExplainResponse& response, const Terminal& out) {
  Table table({{"alert"}, {"speaks"}, {"how"}});
  for (const v1::Evidence& evidence : response.evidence()) {
    table.AddRow({evidence.rule(), evidence.supports() ? "for it" : "against it", evidence.text()});
  }
  if (!table.empty()) SayLines(absl::StrCat("\n", table.Render(out)));
}

void Print(const ExplainArguments& arguments, const v1::ExplainResponse& response) {
  const Terminal out(stdout);
  Say("%s in %s, step %d: %s\n", out.Paint(Style::kBold, arguments.rule), arguments.run,
      response.step(), response.firing() ? out.Paint(Style::kYellow, "fires") : "does not fire");
  const auto row = [&out](const char* label, const std::string& text) {
    if (text.empty()) return;
    Say("  %s%s\n", out.Paint(Style::kDim, absl::StrFormat("%-10s", label)), text);
  };
  row("looks at", response.measure());
  for (const v1::RuleJudging& judging : response.judging()) {
    row("judged", judging.has_from_step()
                      ? absl::StrCat(Plural(judging.rows(), "row"), " from step ",
                                     judging.from_step(), ", of ", judging.series(), " series")
                      : absl::StrCat("nothing: ", judging.why_not()));
  }
  row("why", response.missing());
  if (!response.stopped().empty()) {
    row("note", absl::StrCat("judged only up to step ", response.step(), ": ", response.stopped()));
  }
  PrintSeries(response, out);
  PrintEvidence(response, out);
}

int Explain(const Settings& settings, const ExplainArguments& arguments) {
  Connection daemon(settings);
  v1::ExplainRequest request;
  request.set_run(arguments.run);
  request.set_rule(arguments.rule);
  if (arguments.step.has_value()) request.set_step(*arguments.step);
  v1::ExplainResponse response;
  const auto context = daemon.Context();
  const absl::Status status = FromGrpc(daemon.query().Explain(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
  } else {
    Print(arguments, response);
  }
  return kOk;
}

}  // namespace

void AddRulesExplain(CLI::App& rules, Program& program) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* verb = rules.add_subcommand(
      "explain", "What a rule in force sees in a stored run, and what it lacks to fire");
  verb->add_option("RULE", arguments->rule, "a rule or signature in force")->required();
  verb->add_option("RUN", arguments->run, "the run's name")->required();
  verb->add_option("--step", arguments->step, "as it was at this step; default: the newest one")
      ->type_name("STEP")
      ->check(WholeBetween(0, int64_t{1} << 53));
  AddConnectionOptions(*verb, program);
  verb->footer(
      "The daemon judges the stored steps again, by the evaluator that judges live: value,\n"
      "baseline, noise and limit are those that it compared. A step repeats after a resume; the\n"
      "newest attempt that reached it counts.\n"
      "Examples:\n"
      "  foreshock rules explain loss_level exp-42\n"
      "  foreshock rules explain learning_rate_too_high exp-42 --step 600 -o json");
  verb->callback(
      [&program, arguments] { program.exit_code = Explain(program.settings, *arguments); });
}

}  // namespace foreshock::cli
