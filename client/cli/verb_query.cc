// foreshock query RUN INDICATOR: series by step, with the attempt each value comes from.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/points.h"
#include "client/cli/points_options.h"
#include "client/cli/print_json.h"
#include "client/cli/table.h"

namespace foreshock::cli {
namespace {

constexpr int64_t kRowsMax = 10'000'000;  // of one answer, as the daemon has it

struct QueryOptions {
  PointsOptions points;
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
  std::printf("%s  %s\n", out.Paint(Style::kBold, answer.series().indicator()).c_str(),
              FormatWhere(answer.series()).c_str());
  std::printf(
      "%s  %s%s, attempt %s\n\n", out.Paint(Style::kCyan, Sparkline(values, 60)).c_str(),
      Plural(points, "point").c_str(),
      bucketed ? absl::StrCat(" in buckets of ", answer.bucket_steps(), " steps").c_str() : "",
      absl::StrJoin(attempts, ", ").c_str());
  const Table table = bucketed ? BucketTable(answer, out) : PointTable(answer, out);
  std::fputs(table.Render(out, 2).c_str(), stdout);
  if (answer.has_downsampled_before_step()) {
    std::printf("  raw points before step %s were downsampled; use --buckets\n",
                absl::StrCat(answer.downsampled_before_step()).c_str());
  }
  if (answer.truncated()) {
    std::puts("  … more follows: raise --limit, or narrow --steps, or give --buckets");
  }
  std::puts("");
}

// One object with an answer per series, as /api/v1/points gives it.
void PrintAnswersAsJson(const std::vector<v1::QueryPointsResponse>& answers) {
  std::fputs("{\"results\": [", stdout);
  for (size_t i = 0; i < answers.size(); ++i) {
    std::printf("%s%s", i == 0 ? "\n" : ",\n", ToJson(answers[i]).c_str());
  }
  const bool truncated = !answers.empty() && answers.back().truncated();
  std::printf("], \"truncated\": %s}\n", truncated ? "true" : "false");
}

int Query(const Settings& settings, const QueryOptions& options) {
  absl::StatusOr<v1::QueryPointsRequest> request = options.points.Request();
  if (!request.ok()) {
    std::fprintf(stderr, "foreshock query: %s\n", std::string(request.status().message()).c_str());
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
  if (answers->empty()) {
    std::fprintf(stderr,
                 "foreshock: run %s has no points of %s with these conditions;\n"
                 "  `foreshock query %s --list` shows the series there are\n",
                 options.points.run.c_str(), options.points.indicator.c_str(),
                 options.points.run.c_str());
    return kFinding;
  }
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
    std::printf("No series of run %s are stored%s.\n", options.points.run.c_str(),
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
  std::fputs(table.Render(out).c_str(), stdout);
  if (response.truncated()) std::puts("… more follows: give --limit or an indicator prefix");
  return kOk;
}

}  // namespace

void AddQuery(CLI::App& app, Program& program) {
  auto options = std::make_shared<QueryOptions>();
  auto list = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("query", "Series of an indicator by step, with lineage");
  CLI::Option* indicator = AddPointsOptions(*verb, &options->points);
  verb->add_flag("--list", *list, "show which series there are instead of their points");
  verb->add_option("--buckets", options->buckets_max,
                   "where there are more steps, min, mean and max of at most N buckets instead")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kRowsMax).description(""));
  verb->add_option("--limit", options->limit, "points in all; 0: the daemon's limit")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, kRowsMax).description(""));
  AddConnectionOptions(*verb, program);
  verb->footer(
      "Examples:\n"
      "  foreshock query exp-42 train.loss --steps 1000:1100\n"
      "  foreshock query exp-42 attn.delta2.entropy_ratio_l1 --layer 3 --unit-id 0\n"
      "  foreshock query exp-42 train.loss --attempt 1     the values before the restart\n"
      "  foreshock query exp-42 train.loss --buckets 40    the whole run at a glance\n"
      "  foreshock query exp-42 'attn.*' --match 'layer=~\"0|1\"' --match unit=head\n"
      "  foreshock query exp-42 --list                     which series there are\n"
      "  foreshock query exp-42 'router.*' -o json | jq '.results[].series'");
  verb->callback([&program, options, list, indicator] {
    if (!*list && indicator->empty()) throw CLI::RequiredError("INDICATOR (or --list)");
    program.exit_code =
        *list ? ListSeries(program.settings, *options) : Query(program.settings, *options);
  });
}

}  // namespace foreshock::cli
