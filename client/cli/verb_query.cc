// foreshock query RUN INDICATOR: series by step, with the attempt each value comes from.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/alert_block.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/firing.h"
#include "client/cli/format.h"
#include "client/cli/plot.h"
#include "client/cli/points.h"
#include "client/cli/points_options.h"
#include "client/cli/print_json.h"
#include "client/cli/say.h"
#include "client/cli/table.h"

namespace foreshock::cli {
namespace {

constexpr int64_t kRowsMax = 10'000'000;  // of one answer, as the daemon has it

// Of --plot.
constexpr size_t kPlotSeriesMax = 12;
constexpr size_t kPlotColumnsMax = 200;
constexpr size_t kPlotAlertsMax = 8;

struct QueryOptions {
  PointsOptions points;
  bool plot = false;
  uint64_t buckets_max = 0;
  uint64_t limit = 0;
};

Table PointTable(const v1::QueryPointsResponse& answer, const Terminal& out) {
  Table table(
      {{"step", Align::kRight}, {"value", Align::kRight}, {"attempt", Align::kRight}, {"flags"}});
  for (const v1::Point& point : answer.points()) {
    table.AddRow({absl::StrCat(point.step()), FormatValue(point.value()),
                  absl::StrCat(point.attempt()),
                  out.Paint(Style::kYellow, FormatFlags(point.flags()))});
  }
  return table;
}

Table BucketTable(const v1::QueryPointsResponse& answer, const Terminal& out) {
  Table table({{"from step", Align::kRight},
               {"points", Align::kRight},
               {"min", Align::kRight},
               {"mean", Align::kRight},
               {"max", Align::kRight},
               {"last", Align::kRight},
               {"at step", Align::kRight},
               {"attempt", Align::kRight},
               {"flags"}});
  for (const v1::Bucket& bucket : answer.buckets()) {
    table.AddRow({absl::StrCat(bucket.first_step()), absl::StrCat(bucket.count()),
                  FormatValue(bucket.min()), FormatValue(bucket.mean()), FormatValue(bucket.max()),
                  FormatValue(bucket.last()), absl::StrCat(bucket.last_step()),
                  absl::StrCat(bucket.attempt()),
                  out.Paint(Style::kYellow, FormatFlags(bucket.flags()))});
  }
  return table;
}

void PrintSeries(const v1::QueryPointsResponse& answer, const Terminal& out) {
  std::vector<double> values;
  std::set<uint32_t> attempts;
  for (const v1::Point& point : answer.points()) {
    values.push_back(point.value());
    attempts.insert(point.attempt());
  }
  uint64_t points = values.size();
  for (const v1::Bucket& bucket : answer.buckets()) {
    values.push_back(bucket.mean());
    attempts.insert(bucket.attempt());
    points += bucket.count();
  }
  const bool bucketed = answer.bucket_steps() > 1;
  Say("%s  %s\n", out.Paint(Style::kBold, answer.series().indicator()),
      FormatWhere(answer.series()));
  Say("%s  %s%s, attempt %s\n\n", out.Paint(Style::kCyan, Sparkline(values, 60)),
      Plural(points, "point"),
      bucketed ? absl::StrCat(" in buckets of ", answer.bucket_steps(), " steps") : "",
      absl::StrJoin(attempts, ", "));
  const Table table = bucketed ? BucketTable(answer, out) : PointTable(answer, out);
  SayLines(table.Render(out, 2));
  if (answer.has_downsampled_before_step()) {
    Say("  raw points before step %s were downsampled; use --buckets\n",
        absl::StrCat(answer.downsampled_before_step()));
  }
  if (answer.truncated()) {
    Say("  … more follows: raise --limit, or narrow --steps, or give --buckets\n");
  }
  Say("\n");
}

// One object with an answer per series, as /api/v1/points gives it.
void PrintAnswersAsJson(const std::vector<v1::QueryPointsResponse>& answers) {
  SayExact("{\"results\": [");
  for (size_t i = 0; i < answers.size(); ++i) {
    SayExact(absl::StrCat(i == 0 ? "\n" : ",\n", ToJson(answers[i])));
  }
  const bool truncated = !answers.empty() && answers.back().truncated();
  SayExact(absl::StrCat("], \"truncated\": ", truncated ? "true" : "false", "}\n"));
}

int NoPoints(const QueryOptions& options) {
  SayError(
      "foreshock: run %s has no points of %s with these conditions;\n"
      "  `foreshock query %s --list` shows the series there are\n",
      options.points.run, options.points.indicator, options.points.run);
  return kFinding;
}

int Query(const Settings& settings, const QueryOptions& options) {
  absl::StatusOr<v1::QueryPointsRequest> request = options.points.Request();
  if (!request.ok()) {
    SayError("foreshock query: %s\n", std::string(request.status().message()));
    return kUsage;
  }
  request->set_limit(options.limit);
  request->set_buckets_max(options.buckets_max);
  Connection daemon(settings);
  const auto answers = ReadPoints(daemon, *request);
  if (!answers.ok()) return daemon.Report(answers.status());
  if (settings.output == Output::kJson) {
    PrintAnswersAsJson(*answers);
    return kOk;
  }
  const Terminal out(stdout);
  for (const v1::QueryPointsResponse& answer : *answers) PrintSeries(answer, out);
  return answers->empty() ? NoPoints(options) : kOk;
}

// Alerts that a plot of the series marks: all that ask for a person, and what single indicators say
// of this one in this layer. The gravest last, of equals by step.
std::vector<v1::Alert> AlertsOf(const v1::Series& series, const v1::ListAlertsResponse& all) {
  std::vector<v1::Alert> alerts;
  for (const v1::Alert& alert : all.alerts()) {
    if (!alert.has_firing_step()) continue;
    const bool here = alert.indicator() == series.indicator() &&
                      (!series.has_layer() || alert.all_layers() ||
                       std::find(alert.layers().begin(), alert.layers().end(), series.layer()) !=
                           alert.layers().end());
    if (alert.severity() != "info" || here) alerts.push_back(alert);
  }
  std::sort(alerts.begin(), alerts.end(), [](const v1::Alert& a, const v1::Alert& b) {
    return std::pair(Gravity(a.severity()), a.firing_step()) <
           std::pair(Gravity(b.severity()), b.firing_step());
  });
  return alerts;
}

void PlotSeries(const v1::QueryPointsResponse& answer, const v1::ListAlertsResponse& all,
                size_t rows, const Terminal& out) {
  Plot plot{.points = PlotPoints(answer)};
  if (plot.points.empty()) return;
  const int64_t first = plot.points.front().first_step;
  const int64_t last = plot.points.back().last_step;
  std::vector<v1::Alert> alerts;
  for (v1::Alert& alert : AlertsOf(answer.series(), all)) {
    if (alert.firing_step() < first || alert.firing_step() > last) continue;
    plot.marks.push_back({alert.firing_step(), SeverityStyle(alert.severity())});
    alerts.push_back(std::move(alert));
  }
  Say("%s  %s, steps %d to %d%s\n", out.Paint(Style::kBold, answer.series().indicator()),
      FormatWhere(answer.series()), first, last,
      answer.bucket_steps() > 1
          ? absl::StrCat(", least to greatest of each ", answer.bucket_steps(), " steps")
          : "");
  const size_t columns = std::min(static_cast<size_t>(out.columns()), kPlotColumnsMax);
  for (const std::string& line : DrawPlot(plot, out, {.columns = columns, .rows = rows})) {
    SayLines(absl::StrCat(line, "\n"));
  }
  const size_t shown = std::min(alerts.size(), kPlotAlertsMax);
  for (size_t i = 0; i < shown; ++i) {  // the gravest first
    const v1::Alert& alert = alerts[alerts.size() - 1 - i];
    Say("%s %s\n", out.Paint(SeverityStyle(alert.severity()), "▲"), AlertLine(alert, out));
  }
  if (shown < alerts.size()) {
    Say("  and %d more: foreshock alerts --run %s --brief\n", alerts.size() - shown,
        answer.series().run());
  }
  Say("\n");
}

// --plot: read as buckets, about one a dot, so that a long run is drawn as fast as a short one.
int PlotQuery(const Settings& settings, const QueryOptions& options) {
  absl::StatusOr<v1::QueryPointsRequest> request = options.points.Request();
  if (!request.ok()) {
    SayError("foreshock query: %s\n", request.status().message());
    return kUsage;
  }
  const Terminal out(stdout);
  const uint64_t dots = 2 * std::min(static_cast<size_t>(out.columns()), kPlotColumnsMax);
  request->set_buckets_max(dots);
  request->set_limit(dots * kPlotSeriesMax);
  Connection daemon(settings);
  auto answers = ReadPoints(daemon, *request);
  if (!answers.ok()) return daemon.Report(answers.status());
  if (answers->empty()) return NoPoints(options);
  v1::ListAlertsRequest which;
  which.set_run(options.points.run);
  v1::ListAlertsResponse alerts;
  const absl::Status listed =
      FromGrpc(daemon.query().ListAlerts(daemon.Context().get(), which, &alerts));
  if (!listed.ok()) return daemon.Report(listed);
  const bool more = answers->size() > kPlotSeriesMax || answers->back().truncated();
  // The last one of a truncated answer may be a part only.
  if (answers->back().truncated() && answers->size() > 1) answers->pop_back();
  if (answers->size() > kPlotSeriesMax) answers->resize(kPlotSeriesMax);
  for (const v1::QueryPointsResponse& answer : *answers) {
    PlotSeries(answer, alerts, answers->size() <= 3 ? 12 : 6, out);
  }
  if (more) Say("… more series match: --layer, --unit-id or --match choose\n");
  return kOk;
}

// --list: which series there are, one line an indicator.
int ListSeries(const Settings& settings, const QueryOptions& options) {
  Connection daemon(settings);
  v1::ListSeriesRequest request;
  *request.mutable_selector() = options.points.Selector();
  request.set_limit(static_cast<uint32_t>(options.limit));
  v1::ListSeriesResponse response;
  const auto context = daemon.Context();
  const absl::Status status =
      FromGrpc(daemon.query().ListSeries(context.get(), request, &response));
  if (!status.ok()) return daemon.Report(status);
  if (settings.output == Output::kJson) {
    PrintJson(response);
    return kOk;
  }
  struct Summary {
    std::set<uint64_t> layers;
    std::map<v1::Unit, std::set<uint64_t>> units;
    std::set<std::string> tensors;
    uint64_t count = 0;
  };
  std::map<std::string, Summary> indicators;
  for (const v1::Series& series : response.series()) {
    Summary& summary = indicators[series.indicator()];
    ++summary.count;
    if (series.has_layer()) summary.layers.insert(series.layer());
    if (series.unit() == v1::UNIT_TENSOR) {
      summary.tensors.insert(series.unit_name());
    } else if (series.unit() != v1::UNIT_NONE) {
      summary.units[series.unit()].insert(series.unit_id());
    }
  }
  if (indicators.empty()) {
    Say("No series of run %s are stored%s.\n", options.points.run,
        options.points.indicator.empty() ? " yet" : " under that name");
    return kOk;
  }
  const Terminal out(stdout);
  Table table({{"indicator"}, {"series", Align::kRight}, {"layers"}, {"units"}});
  for (const auto& [indicator, summary] : indicators) {
    std::string units = absl::StrJoin(summary.tensors, " ");
    for (const auto& [unit, ids] : summary.units) {
      absl::StrAppend(&units, units.empty() ? "" : "; ", UnitName(unit), " ", FormatRanges(ids));
    }
    table.AddRow(
        {indicator, absl::StrCat(summary.count), FormatRanges(summary.layers), std::move(units)});
  }
  SayLines(table.Render(out));
  if (response.truncated()) Say("… more follows: give --limit or an indicator prefix\n");
  return kOk;
}

}  // namespace

void AddQuery(CLI::App& app, Program& program) {
  auto options = std::make_shared<QueryOptions>();
  auto list = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("query", "Series of an indicator by step, with lineage");
  CLI::Option* indicator = AddPointsOptions(*verb, &options->points);
  verb->add_flag("--list", *list, "show which series there are instead of their points");
  CLI::Option* plot =
      verb->add_flag("--plot", options->plot, "draw the series, with attempts and alerts");
  CLI::Option* buckets =
      verb->add_option("--buckets", options->buckets_max,
                       "where there are more steps, min, mean and max of at most N buckets instead")
          ->type_name("N")
          ->check(WholeBetween(1, kRowsMax));
  CLI::Option* limit =
      verb->add_option("--limit", options->limit, "points in all; 0: the daemon's limit")
          ->type_name("N")
          ->check(WholeBetween(0, kRowsMax));
  AddConnectionOptions(*verb, program);
  plot->excludes(buckets)->excludes(limit);
  verb->footer(
      "Examples:\n"
      "  foreshock query exp-42 train.loss --steps 1000:1100\n"
      "  foreshock query exp-42 attn.delta2.entropy_ratio_l1 --layer 3 --unit-id 0\n"
      "  foreshock query exp-42 train.loss --attempt 1     the values before the restart\n"
      "  foreshock query exp-42 train.loss --buckets 40    the whole run at a glance\n"
      "  foreshock query exp-42 train.loss --plot          a curve in the terminal\n"
      "  foreshock query exp-42 'attn.*' --match 'layer=~\"0|1\"' --match unit=head\n"
      "  foreshock query exp-42 --list                     which series there are\n"
      "  foreshock query exp-42 'router.*' -o json | jq '.results[].series'");
  verb->callback([&program, options, list, indicator] {
    if (!*list && indicator->empty()) throw CLI::RequiredError("INDICATOR (or --list)");
    if (options->plot && (*list || program.settings.output == Output::kJson)) {
      throw CLI::ValidationError("--plot draws points: it goes with neither --list nor -o json");
    }
    program.exit_code = *list           ? ListSeries(program.settings, *options)
                        : options->plot ? PlotQuery(program.settings, *options)
                                        : Query(program.settings, *options);
  });
}

}  // namespace foreshock::cli
