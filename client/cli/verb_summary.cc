// foreshock summary RUN: first warning, loss break, and the lead between them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/print_json.h"
#include "client/cli/run_summary.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

std::string Verdict(const RunSummary& summary, const Terminal& out) {
  const auto lead = summary.lead_steps();
  if (lead && *lead > 0) {
    return out.Paint(Style::kGreen,
                     absl::StrCat("warned ", Plural(*lead, "step"), " before the loss broke"));
  }
  if (lead) {
    return out.Paint(Style::kRed,
                     absl::StrCat("warned ", Plural(-*lead, "step"), " after the loss broke"));
  }
  if (summary.first_warning) return "warned; the loss has not broken";
  if (summary.loss_break_step) return out.Paint(Style::kRed, "the loss broke without a warning");
  if (summary.judged && !summary.judged->has_from_step()) {
    return out.Paint(Style::kYellow, "not judged: no rule has judged a row of it");
  }
  return out.Paint(Style::kGreen, "quiet: no warning, and the loss has not broken");
}

// Rules without a verdict, those whose series came with the reason.
std::vector<std::string> NotJudgedLines(const RunSummary& summary) {
  std::vector<std::string> lines;
  std::vector<std::string> absent;
  for (const v1::RuleJudging& rule : summary.not_judged) {
    if (rule.series() == 0) {
      absent.push_back(rule.rule());
    } else {
      lines.push_back(absl::StrCat(rule.rule(), ": ", rule.why_not()));
    }
  }
  if (!absent.empty()) {
    lines.push_back(
        absl::StrCat("no value of their series has come: ", absl::StrJoin(absent, ", ")));
  }
  if (!summary.not_judged_unknown.empty()) {
    lines.push_back(absl::StrCat("not known further: ", summary.not_judged_unknown));
  }
  return lines;
}

void Print(const RunSummary& summary) {
  const Terminal out(stdout);
  Say("%s: %s\n", out.Paint(Style::kBold, summary.run), Verdict(summary, out));
  const auto row = [&](const char* label, const std::string& text) {
    Say("  %s%s\n", out.Paint(Style::kDim, absl::StrFormat("%-15s", label)), text);
  };
  if (summary.first_warning) {
    const v1::Alert& alert = *summary.first_warning;
    row("first warning",
        absl::StrCat("step ", alert.firing_step(), ": ",
                     alert.fault().empty() ? alert.rule() : alert.fault(), ", ", FormatWhere(alert),
                     " (", alert.severity(), ", rule ", alert.rule(), ")"));
  } else {
    row("first warning", "none");
  }
  row("loss break", summary.loss_break_step
                        ? absl::StrCat("step ", *summary.loss_break_step,
                                       ": its average left the best by a fifth, for good")
                        : "none");
  if (summary.lead_steps())
    row("lead", Plural(std::max<int64_t>(0, *summary.lead_steps()), "step"));
  if (summary.last_step) row("last step", absl::StrCat(*summary.last_step));
  if (summary.judged) row("judged", FormatJudged(*summary.judged));
  const char* label = "not judged";
  for (const std::string& line : NotJudgedLines(summary)) {
    for (const std::string& part : Wrap(line, std::max(40, std::min(out.columns(), 100) - 18))) {
      row(label, part);
      label = "";
    }
  }
}

void PrintAsJson(const RunSummary& summary) {
  nlohmann::json answer = {{"run", summary.run},
                           {"first_warning", nullptr},
                           {"loss_break_step", nullptr},
                           {"lead_steps", nullptr},
                           {"last_step", nullptr},
                           {"judged", nullptr},
                           {"not_judged", nlohmann::json::array()},
                           {"not_judged_unknown", summary.not_judged_unknown}};
  if (summary.judged) answer["judged"] = nlohmann::json::parse(ToJson(*summary.judged));
  for (const v1::RuleJudging& rule : summary.not_judged) {
    answer["not_judged"].push_back(nlohmann::json::parse(ToJson(rule)));
  }
  if (summary.first_warning) {
    const v1::Alert& alert = *summary.first_warning;
    answer["first_warning"] = {
        {"id", alert.id()},       {"step", alert.firing_step()},  {"rule", alert.rule()},
        {"fault", alert.fault()}, {"severity", alert.severity()}, {"where", FormatWhere(alert)}};
  }
  if (summary.loss_break_step) answer["loss_break_step"] = *summary.loss_break_step;
  if (summary.lead_steps()) answer["lead_steps"] = *summary.lead_steps();
  if (summary.last_step) answer["last_step"] = *summary.last_step;
  SayExact(
      absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
}

int Summary(const Settings& settings, const std::string& run, bool require_lead) {
  Connection daemon(settings);
  const absl::StatusOr<RunSummary> summary = Summarise(daemon, run);
  if (!summary.ok()) return daemon.Report(summary.status());
  if (settings.output == Output::kJson) {
    PrintAsJson(*summary);
  } else {
    Print(*summary);
  }
  return require_lead && summary->lead_steps().value_or(0) <= 0 ? kFinding : kOk;
}

}  // namespace

void AddSummary(CLI::App& app, Program& program) {
  auto run = std::make_shared<std::string>();
  auto require_lead = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("summary", "First warning, loss break and the lead in steps");
  verb->add_option("RUN", *run, "the run's name")->required();
  verb->add_flag("--require-lead", *require_lead,
                 "exit 1 unless a warning came before the loss broke");
  AddConnectionOptions(*verb, program);
  verb->footer(
      "The loss breaks at the first step at which its exponential average (0.96) exceeds 1.2 "
      "times\n"
      "the best slower average (0.98) so far and never falls back below 1.1 times the best, or at\n"
      "the first non-finite loss when most of what follows is non-finite.\n"
      "Example:\n  foreshock summary exp-42 -o json");
  verb->callback([&program, run, require_lead] {
    program.exit_code = Summary(program.settings, *run, *require_lead);
  });
}

}  // namespace foreshock::cli
