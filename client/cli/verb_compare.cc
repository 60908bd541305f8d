// foreshock compare RUN_A RUN_B: how a run differs from another one.
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
#include "client/cli/compared_runs.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "client/cli/terminal.h"
#include "daemon/backtest/comparison.h"
#include "daemon/backtest/plot.h"
#include "daemon/base/gnuplot.h"
#include "daemon/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

constexpr size_t kComparedPanels = 8;

struct CompareArguments {
  std::string baseline;
  std::string run;
  std::string by = "steps";
  std::vector<std::string> indicators;
  std::string plot;
  backtest::CompareOptions options;
};

std::string PlaceOf(const model::SeriesKey& key) {
  const std::string place = backtest::SeriesPlace(key.layer, key.unit, key.unit_id, key.unit_name);
  return place.empty() ? "whole run" : place;
}

std::string Spreads(const backtest::SeriesDifference& series) {
  return series.size.has_value() ? absl::StrFormat("%+.1f", *series.size) : "constant";
}

void PrintComparison(const CompareArguments& arguments, const backtest::Comparison& comparison) {
  const Terminal out(stdout);
  Table table(
      {{"indicator"},
       {"differs", Align::kRight},
       {absl::StrCat("since ", arguments.options.by_tokens ? "token" : "step"), Align::kRight},
       {"furthest in"},
       {"difference", Align::kRight},
       {"spread", Align::kRight},
       {"in spreads", Align::kRight},
       {"away", Align::kRight}});
  size_t same = 0;
  for (const backtest::IndicatorDifference& indicator : comparison.indicators) {
    if (!indicator.since.has_value()) {
      ++same;
      continue;
    }
    const backtest::SeriesDifference& worst = comparison.series[indicator.worst];
    table.AddRow({indicator.indicator, absl::StrCat(indicator.differing, " of ", indicator.series),
                  absl::StrCat(*indicator.since), PlaceOf(worst.key), FormatValue(worst.difference),
                  FormatValue(worst.spread), Spreads(worst),
                  absl::StrFormat("%.0f %%", 100 * worst.share)});
  }
  if (!table.empty()) SayLines(absl::StrCat(table.Render(out), "\n"));
  const size_t differ = comparison.indicators.size() - same;
  Say("%s and %s: %d of %s of %s, %s\n", arguments.baseline, arguments.run, differ,
      Plural(comparison.indicators.size(), "indicator"),
      absl::StrCat(comparison.series.size(), " series"),
      differ == 0 ? "none differs" : "the largest difference first");
  const auto list = [](const std::vector<std::string>& names, const std::string& run) {
    if (names.empty()) return;
    Say("  only %s has %s\n", run, absl::StrJoin(names, ", "));
  };
  list(comparison.only_baseline, arguments.baseline);
  list(comparison.only_run, arguments.run);
  if (comparison.too_short > 0) {
    Say("  %d series have fewer than %d points in common and were not judged\n",
        comparison.too_short, arguments.options.points_least);
  }
}

nlohmann::json SeriesJson(const backtest::SeriesDifference& series) {
  return {{"indicator", series.key.indicator},
          {"layer", series.key.layer >= 0 ? nlohmann::json(series.key.layer) : nullptr},
          {"where", PlaceOf(series.key)},
          {"points", series.run.size()},
          {"spread", series.spread},
          {"since", series.since.has_value() ? nlohmann::json(*series.since) : nullptr},
          {"away_share", series.share},
          {"difference", series.difference},
          {"in_spreads", series.size.has_value() ? nlohmann::json(*series.size) : nullptr}};
}

void PrintComparisonAsJson(const CompareArguments& arguments,
                           const backtest::Comparison& comparison) {
  nlohmann::json indicators = nlohmann::json::array();
  for (const backtest::IndicatorDifference& indicator : comparison.indicators) {
    indicators.push_back(
        {{"indicator", indicator.indicator},
         {"series", indicator.series},
         {"differing", indicator.differing},
         {"since", indicator.since.has_value() ? nlohmann::json(*indicator.since) : nullptr},
         {"furthest", SeriesJson(comparison.series[indicator.worst])}});
  }
  nlohmann::json series = nlohmann::json::array();
  for (const backtest::SeriesDifference& one : comparison.series) series.push_back(SeriesJson(one));
  const nlohmann::json answer = {{"baseline", arguments.baseline},
                                 {"run", arguments.run},
                                 {"by", arguments.by},
                                 {"spreads", arguments.options.spreads},
                                 {"in_a_row", arguments.options.in_a_row},
                                 {"indicators", indicators},
                                 {"series", series},
                                 {"series_too_short", comparison.too_short},
                                 {"only_baseline", comparison.only_baseline},
                                 {"only_run", comparison.only_run},
                                 {"plot", arguments.plot}};
  SayExact(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

absl::Status DrawComparison(const CompareArguments& arguments,
                            const backtest::Comparison& comparison) {
  backtest::CurvesPlot plot{.title = absl::StrCat(arguments.run, " against ", arguments.baseline),
                            .x_label = arguments.options.by_tokens ? "tokens" : "step"};
  for (const backtest::IndicatorDifference& indicator : comparison.indicators) {
    if (plot.panels.size() == kComparedPanels) break;
    const backtest::SeriesDifference& worst = comparison.series[indicator.worst];
    backtest::CurvesPlot::Panel panel{
        .title = absl::StrCat(indicator.indicator, ", ", PlaceOf(worst.key), ": ",
                              worst.since.has_value() ? Spreads(worst) + " spreads" : "the same"),
        .lines = {{.name = arguments.baseline, .points = worst.baseline},
                  {.name = arguments.run, .points = worst.run}}};
    if (worst.since.has_value()) panel.marks.push_back({*worst.since, "differs"});
    plot.panels.push_back(std::move(panel));
  }
  return base::RunGnuplot(backtest::CurvesScript(plot, arguments.plot));
}

int Compare(const Settings& settings, CompareArguments arguments) {
  const auto fail = [](const absl::Status& status, int code) {
    SayErrorLines(absl::StrCat("foreshock compare: ", status.message(), "\n"));
    return code;
  };
  arguments.options.by_tokens = arguments.by == "tokens";
  if (!arguments.plot.empty()) {
    if (const auto wrong = base::CheckPlotFile(arguments.plot); !wrong.ok())
      return fail(wrong, kUsage);
    if (const auto drawable = base::RunGnuplot(""); !drawable.ok()) return fail(drawable, kFinding);
  }
  Connection daemon(settings);
  std::vector<backtest::RecordedRun> runs;
  for (const std::string& name : {arguments.baseline, arguments.run}) {
    if (NamesCapture(name)) {
      auto run = ReadComparedCapture(name, nullptr, arguments.indicators);
      if (!run.ok()) return fail(run.status(), kFinding);
      runs.push_back(*std::move(run));
    } else {
      runs.emplace_back();
      runs.back().name = name;
      const absl::Status read =
          ReadStoredCurves(daemon, arguments.indicators, arguments.options.by_tokens, &runs.back());
      if (!read.ok()) return daemon.Report(read);
    }
  }
  const auto comparison = backtest::CompareRuns(runs[0], runs[1], arguments.options);
  if (!comparison.ok()) return fail(comparison.status(), kFinding);
  if (!arguments.plot.empty()) {
    const auto drawn = DrawComparison(arguments, *comparison);
    if (!drawn.ok()) return fail(drawn, kFinding);
  }
  if (settings.output == Output::kJson) {
    PrintComparisonAsJson(arguments, *comparison);
  } else {
    PrintComparison(arguments, *comparison);
    if (!arguments.plot.empty()) Say("  drawn into %s\n", arguments.plot);
  }
  return kOk;
}

}  // namespace

void AddCompare(CLI::App& app, Program& program) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* verb = app.add_subcommand("compare", "How a run differs from another, the baseline");
  verb->add_option("RUN_A", arguments->baseline,
                   "the baseline: a run of the daemon, or a capture (.fscap, .jsonl)")
      ->required();
  verb->add_option("RUN_B", arguments->run, "the run to look at, likewise")->required();
  verb->add_option("--by", arguments->by, "compare at the same steps or at the same tokens")
      ->check(CLI::IsMember({"steps", "tokens"}).description(""))
      ->type_name("steps|tokens")
      ->capture_default_str();
  verb->add_option("--indicators", arguments->indicators,
                   "only these, or a prefix ending in '*'; default: all")
      ->type_name("ID")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--spreads", arguments->options.spreads,
                   "a series differs where it is further away than so many spreads of the baseline")
      ->type_name("N")
      ->check(NumberBetween(0, 1e6))
      ->capture_default_str();
  verb->add_option("--in-a-row", arguments->options.in_a_row,
                   "in so many points, one after the other")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, size_t{100'000}).description(""))
      ->capture_default_str();
  verb->add_option("--plot,-p", arguments->plot, "draw the indicators that differ most")
      ->type_name("FILE.svg|FILE.png");
  AddConnectionOptions(*verb, program);
  verb->footer(
      "Every series that both runs have is compared at the points that both have, smoothed by a\n"
      "running median of 5. The spread is the baseline's noise from point to point: two good runs\n"
      "with other seeds or data lie further apart in what moves slowly. Compare two good runs to\n"
      "see how far, and raise --spreads above it (docs/compare.md).\n"
      "Examples:\n"
      "  foreshock compare exp-41 exp-42\n"
      "  foreshock compare good.fscap exp-42 --by tokens --indicators 'train.*,router.*'\n"
      "  foreshock compare exp-41 exp-42 --plot difference.svg -o json");
  verb->callback(
      [&program, arguments] { program.exit_code = Compare(program.settings, *arguments); });
}

}  // namespace foreshock::cli
