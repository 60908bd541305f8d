// foreshock fidelity: does a proxy model answer a fault as the full model does?
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/compared_runs.h"
#include "client/cli/connection.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "client/cli/terminal.h"
#include "daemon/backtest/fidelity.h"
#include "daemon/backtest/plot.h"
#include "daemon/base/gnuplot.h"
#include "daemon/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

constexpr size_t kFidelityPanels = 8;

struct FidelityArguments {
  std::array<std::string, 4> runs;  // full healthy, full fault, proxy healthy, proxy fault
  std::vector<std::string> rules;
  std::optional<int64_t> fault_from;
  std::string severity = "warning";
  std::vector<std::string> indicators;
  std::string plot;

  backtest::FidelityInput Input(const std::vector<backtest::RecordedRun>& read) const {
    return {.full_healthy = &read[0],
            .full_fault = &read[1],
            .proxy_healthy = &read[2],
            .proxy_fault = &read[3],
            .fault_from = fault_from,
            .severity = severity,
            .indicators = indicators};
  }
};

const char* NameOf(backtest::Outcome outcome) {
  return outcome == backtest::Outcome::kPass   ? "pass"
         : outcome == backtest::Outcome::kFail ? "fail"
                                               : "undefined";
}

std::string Painted(backtest::Outcome outcome, const Terminal& out) {
  const Style style = outcome == backtest::Outcome::kPass   ? Style::kGreen
                      : outcome == backtest::Outcome::kFail ? Style::kRed
                                                            : Style::kYellow;
  return out.Paint(style, NameOf(outcome));
}

std::string NumberOrDash(const std::optional<double>& number) {
  return number.has_value() ? absl::StrFormat("%.2g", *number) : "-";
}

std::string MovedAt(const std::optional<int64_t>& step) {
  return step.has_value() ? absl::StrCat(*step) : "-";
}

void PrintFidelity(const backtest::Fidelity& fidelity) {
  const Terminal out(stdout);
  Table indicators({{"indicator"},
                    {"full moves", Align::kRight},
                    {"proxy moves", Align::kRight},
                    {"full slope", Align::kRight},
                    {"proxy slope", Align::kRight},
                    {"direction"},
                    {"Spearman", Align::kRight},
                    {"points", Align::kRight},
                    {"trend"},
                    {"note"}});
  for (const backtest::IndicatorResponse& one : fidelity.indicators) {
    indicators.AddRow(
        {one.indicator, MovedAt(one.full_step), MovedAt(one.proxy_step),
         NumberOrDash(one.full_slope), NumberOrDash(one.proxy_slope),
         one.judged ? Painted(one.direction, out) : NameOf(one.direction),
         NumberOrDash(one.spearman), absl::StrCat(one.points),
         one.judged ? Painted(one.trend, out) : NameOf(one.trend),
         one.judged ? one.reason
                    : absl::StrCat("not judged", one.reason.empty() ? "" : "; ", one.reason)});
  }
  if (!indicators.empty()) SayLines(absl::StrCat(indicators.Render(out), "\n"));
  Table criteria({{"criterion"}, {"verdict"}, {"reason"}});
  for (const backtest::Criterion& one : fidelity.criteria) {
    criteria.AddRow({one.required ? one.name : absl::StrCat(one.name, " (not required)"),
                     Painted(one.outcome, out), one.reason});
  }
  SayLines(absl::StrCat(criteria.Render(out), "\n"));
  const char* words = fidelity.outcome == backtest::Outcome::kPass
                          ? "the proxy answers the fault as the full model does"
                      : fidelity.outcome == backtest::Outcome::kFail
                          ? "the proxy does not answer the fault as the full model does"
                          : "undecided: not every criterion could be judged";
  Say("%s: %s\n", Painted(fidelity.outcome, out), words);
}

nlohmann::json StepJson(const std::optional<int64_t>& step) {
  return step.has_value() ? nlohmann::json(*step) : nlohmann::json(nullptr);
}
nlohmann::json NumberJson(const std::optional<double>& number) {
  return number.has_value() ? nlohmann::json(*number) : nlohmann::json(nullptr);
}

void PrintFidelityAsJson(const FidelityArguments& arguments, const backtest::Fidelity& fidelity) {
  nlohmann::json criteria = nlohmann::json::array();
  for (const backtest::Criterion& one : fidelity.criteria) {
    criteria.push_back({{"name", one.name},
                        {"verdict", NameOf(one.outcome)},
                        {"required", one.required},
                        {"reason", one.reason}});
  }
  nlohmann::json indicators = nlohmann::json::array();
  for (const backtest::IndicatorResponse& one : fidelity.indicators) {
    indicators.push_back({{"indicator", one.indicator},
                          {"judged", one.judged},
                          {"layers", one.layers},
                          {"full_step", StepJson(one.full_step)},
                          {"proxy_step", StepJson(one.proxy_step)},
                          {"full_slope", NumberJson(one.full_slope)},
                          {"proxy_slope", NumberJson(one.proxy_slope)},
                          {"direction", NameOf(one.direction)},
                          {"points", one.points},
                          {"spearman", NumberJson(one.spearman)},
                          {"trend", NameOf(one.trend)},
                          {"reason", one.reason}});
  }
  const nlohmann::json answer = {{"runs", arguments.runs},
                                 {"fault_from", StepJson(arguments.fault_from)},
                                 {"severity", arguments.severity},
                                 {"verdict", NameOf(fidelity.outcome)},
                                 {"criteria", criteria},
                                 {"indicators", indicators},
                                 {"full_alerts", fidelity.full_alerts},
                                 {"proxy_alerts", fidelity.proxy_alerts},
                                 {"full_fault", fidelity.full_fault},
                                 {"proxy_fault", fidelity.proxy_fault},
                                 {"plot", arguments.plot}};
  SayExact(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

absl::Status DrawFidelity(const FidelityArguments& arguments, const backtest::Fidelity& fidelity) {
  backtest::CurvesPlot plot{.title =
                                absl::StrCat("what the fault changes: ", NameOf(fidelity.outcome))};
  for (const backtest::IndicatorResponse& one : fidelity.indicators) {
    if (plot.panels.size() == kFidelityPanels) break;
    backtest::CurvesPlot::Panel panel{
        .title = absl::StrCat(one.indicator, ", with the fault minus without: direction ",
                              NameOf(one.direction), ", trend ", NameOf(one.trend)),
        .lines = {{.name = "full model", .points = one.full},
                  {.name = "proxy", .points = one.proxy}}};
    if (arguments.fault_from.has_value()) {
      panel.marks.push_back({*arguments.fault_from, "fault"});
    }
    plot.panels.push_back(std::move(panel));
  }
  return base::RunGnuplot(backtest::CurvesScript(plot, arguments.plot));
}

int JudgeProxy(const Settings& settings, const FidelityArguments& arguments) {
  const auto fail = [](absl::string_view message, int code) {
    SayErrorLines(absl::StrCat("foreshock fidelity: ", message, "\n"));
    return code;
  };
  const size_t captures = std::count_if(arguments.runs.begin(), arguments.runs.end(), NamesCapture);
  if (captures > 0 && arguments.rules.empty()) {
    return fail("captures hold no alerts: give --rules FILE..., the rule files to judge them by",
                kUsage);
  }
  if (captures == 0 && !arguments.rules.empty()) {
    return fail("--rules is for captures; of stored runs the daemon's own alerts count", kUsage);
  }
  if (captures > 0 && captures < arguments.runs.size()) {
    SayError(
        "foreshock fidelity: note: captures are judged by --rules, stored runs by the "
        "daemon's rules; the type is only comparable if these are the same\n");
  }
  std::shared_ptr<const rules::RuleSet> rules;
  if (!arguments.rules.empty()) {
    auto loaded = rules::LoadRules(arguments.rules);
    if (!loaded.ok()) return fail(loaded.status().message(), kFinding);
    rules = *std::move(loaded);
  }
  if (!arguments.plot.empty()) {
    if (const auto wrong = base::CheckPlotFile(arguments.plot); !wrong.ok()) {
      return fail(wrong.message(), kUsage);
    }
    if (const auto drawable = base::RunGnuplot(""); !drawable.ok()) {
      return fail(drawable.message(), kFinding);
    }
  }
  Connection daemon(settings);
  std::vector<backtest::RecordedRun> runs;
  for (const std::string& name : arguments.runs) {
    auto run =
        NamesCapture(name) ? ReadComparedCapture(name, rules, {}) : ReadStoredAlerts(daemon, name);
    if (!run.ok()) {
      return NamesCapture(name) ? fail(run.status().message(), kFinding)
                                : daemon.Report(run.status());
    }
    runs.push_back(*std::move(run));
  }
  // Of stored runs only what is looked at is read.
  std::vector<std::string> wanted = backtest::JudgedIndicators(arguments.Input(runs));
  wanted.insert(wanted.end(), backtest::FidelityIndicators().begin(),
                backtest::FidelityIndicators().end());
  for (size_t i = 0; i < runs.size(); ++i) {
    if (NamesCapture(arguments.runs[i])) continue;
    const absl::Status read = ReadStoredCurves(daemon, wanted, false, &runs[i]);
    if (!read.ok()) return daemon.Report(read);
  }
  const auto fidelity = backtest::JudgeFidelity(arguments.Input(runs));
  if (!fidelity.ok()) return fail(fidelity.status().message(), kFinding);
  if (!arguments.plot.empty()) {
    const absl::Status drawn = DrawFidelity(arguments, *fidelity);
    if (!drawn.ok()) return fail(drawn.message(), kFinding);
  }
  if (settings.output == Output::kJson) {
    PrintFidelityAsJson(arguments, *fidelity);
  } else {
    PrintFidelity(*fidelity);
    if (!arguments.plot.empty()) Say("  drawn into %s\n", arguments.plot);
  }
  return fidelity->outcome == backtest::Outcome::kPass ? kOk : kFinding;
}

}  // namespace

void AddFidelity(CLI::App& app, Program& program) {
  auto arguments = std::make_shared<FidelityArguments>();
  CLI::App* verb =
      app.add_subcommand("fidelity", "Does a proxy answer a fault as the full model does?");
  const auto run = [&](const char* option, size_t place, const char* help) {
    verb->add_option(option, arguments->runs[place], help)->required()->type_name("RUN|CAPTURE");
  };
  run("--full-healthy", 0, "the full model, healthy: a run of the daemon, or .fscap or .jsonl");
  run("--full-fault", 1, "the full model with the fault");
  run("--proxy-healthy", 2, "the proxy, healthy");
  run("--proxy-fault", 3, "the proxy with the fault");
  verb->add_option("--rules", arguments->rules, "the rule files to judge captures by, as one set")
      ->type_name("FILE");
  verb->add_option("--fault-from", arguments->fault_from, "the fault begins at this step")
      ->type_name("STEP")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53).description(""));
  verb->add_option("--severity", arguments->severity, "alerts below it do not count")
      ->check(CLI::IsMember({"info", "warning", "critical"}).description(""))
      ->type_name("info|warning|critical")
      ->capture_default_str();
  verb->add_option("--indicators", arguments->indicators,
                   "judge these too, fired or not; or a prefix ending in '*'")
      ->type_name("ID")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--plot,-p", arguments->plot, "draw what the fault changes in both models")
      ->type_name("FILE.svg|FILE.png");
  AddConnectionOptions(*verb, program);
  verb->footer(
      "Four runs of the same prompts, order, optimizer, learning rate and step count. Type: the\n"
      "same alerts and fault; direction and trend of what they rest on; the order in which it\n"
      "moves; onset within a factor of 2 (not required); quiet: the healthy proxy fires nothing\n"
      "new (docs/compare.md). Exit code: 0 only if the proxy passes.\n"
      "Examples:\n"
      "  foreshock fidelity --full-healthy a --full-fault b --proxy-healthy c --proxy-fault d\n"
      "  foreshock fidelity --full-healthy a.fscap --full-fault b.fscap --proxy-healthy c.fscap "
      "\\\n"
      "      --proxy-fault d.fscap --rules rules/default.yaml --rules rules/signatures.yaml \\\n"
      "      --fault-from 200 --plot fidelity.svg");
  verb->callback(
      [&program, arguments] { program.exit_code = JudgeProxy(program.settings, *arguments); });
}

}  // namespace foreshock::cli
