// foreshock query RUN INDICATOR: series by step, with the attempt each value comes from.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/connection.h"
#include "client/cli/format.h"
#include "client/cli/one_of.h"
#include "client/cli/points.h"
#include "client/cli/print_json.h"
#include "client/cli/step_range.h"
#include "client/cli/table.h"

namespace foreshock::cli {
namespace {

struct QueryOptions {
  std::string run;
  std::string indicator;
  std::vector<int32_t> layers;
  v1::Unit unit = v1::UNIT_UNSPECIFIED;
  std::vector<int64_t> unit_ids;
  std::string unit_name;
  std::string steps;
  std::string attempt = "live";
  uint64_t limit = 0;
};

absl::StatusOr<v1::QueryPointsRequest> MakeRequest(const QueryOptions& options) {
  v1::QueryPointsRequest request;
  v1::SeriesSelector* selector = request.mutable_selector();
  selector->set_run(options.run);
  selector->set_indicator(options.indicator);
  selector->mutable_layers()->Add(options.layers.begin(), options.layers.end());
  selector->set_unit(options.unit);
  selector->mutable_unit_ids()->Add(options.unit_ids.begin(), options.unit_ids.end());
  selector->set_unit_name(options.unit_name);
  if (!options.steps.empty()) {
    const absl::StatusOr<StepsArgument> steps = ParseSteps(options.steps);
    if (!steps.ok()) return steps.status();
    if (steps->first) request.set_first_step(*steps->first);
    if (steps->last) request.set_last_step(*steps->last);
  }
  if (options.attempt != "live") {
    uint32_t attempt = 0;
    if (!absl::SimpleAtoi(options.attempt, &attempt) || attempt == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--attempt ", options.attempt, ": expected 1, 2, ... or live"));
    }
    request.set_attempt(attempt);
  }
  request.set_limit(options.limit);
  return request;
}

void PrintSeries(const v1::QueryPointsResponse& answer, const Terminal& out) {
  std::vector<double> values;
  std::set<uint32_t> attempts;
  for (const v1::Point& point : answer.points()) {
    values.push_back(point.value());
    attempts.insert(point.attempt());
  }
  std::printf("%s  %s\n", out.Paint(Style::kBold, answer.series().indicator()).c_str(),
              FormatWhere(answer.series()).c_str());
  std::printf("%s  %s, attempt %s\n\n", out.Paint(Style::kCyan, Sparkline(values, 60)).c_str(),
              Plural(values.size(), "point").c_str(), absl::StrJoin(attempts, ", ").c_str());
  Table table(
      {{"step", Align::kRight}, {"value", Align::kRight}, {"attempt", Align::kRight}, {"flags"}});
  for (const v1::Point& point : answer.points()) {
    table.AddRow({absl::StrCat(point.step()), FormatValue(point.value()),
                  absl::StrCat(point.attempt()), out.Paint(Style::kYellow, FormatFlags(point))});
  }
  std::fputs(table.Render(out, 2).c_str(), stdout);
  if (answer.truncated()) {
    std::printf("  … more follows: ask again with --steps %lld:\n",
                answer.points().empty()
                    ? 0LL
                    : static_cast<long long>(answer.points().rbegin()->step() + 1));
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
  const absl::StatusOr<v1::QueryPointsRequest> request = MakeRequest(options);
  if (!request.ok()) {
    std::fprintf(stderr, "foreshock query: %s\n", std::string(request.status().message()).c_str());
    return kUsage;
  }
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
                 options.run.c_str(), options.indicator.c_str(), options.run.c_str());
    return kFinding;
  }
  return kOk;
}

// --list: which series there are, one line an indicator.
int ListSeries(const Settings& settings, const QueryOptions& options) {
  Connection daemon(settings);
  v1::ListSeriesRequest request;
  request.mutable_selector()->set_run(options.run);
  request.mutable_selector()->set_indicator(options.indicator);
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
    std::printf("No series of run %s are stored%s.\n", options.run.c_str(),
                options.indicator.empty() ? " yet" : " under that name");
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
  static const std::map<std::string, v1::Unit> kUnits = {
      {"none", v1::UNIT_NONE},     {"head", v1::UNIT_HEAD},
      {"expert", v1::UNIT_EXPERT}, {"projection", v1::UNIT_PROJECTION},
      {"rank", v1::UNIT_RANK},     {"tensor", v1::UNIT_TENSOR}};
  auto options = std::make_shared<QueryOptions>();
  auto list = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("query", "Series of an indicator by step, with lineage");
  verb->add_option("RUN", options->run, "the run's name")->required();
  CLI::Option* indicator = verb->add_option("INDICATOR", options->indicator,
                                            "its id, or a prefix ending in '*' (attn.delta2.*)");
  verb->add_flag("--list", *list, "show which series there are instead of their points");
  verb->add_option("--layer", options->layers, "only these layers (-1: series without a layer)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N")
      ->check(CLI::Range(-1, 1 << 20).description(""));
  verb->add_option("--unit", options->unit, "only series of a head, expert, rank, ...")
      ->transform(OneOf(kUnits))
      ->type_name("UNIT");
  verb->add_option("--unit-id", options->unit_ids, "only these heads, experts, ranks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N");
  verb->add_option("--unit-name", options->unit_name, "only this tensor")->type_name("NAME");
  verb->add_option("--steps", options->steps, "first and last step, either may be missing")
      ->type_name("A:B");
  verb->add_option("--attempt", options->attempt,
                   "one attempt, or live: of each step the newest attempt that reached it")
      ->type_name("N|live")
      ->capture_default_str();
  verb->add_option("--limit", options->limit, "points in all; 0: the daemon's limit")
      ->type_name("N");
  AddConnectionOptions(*verb, program);
  verb->footer(
      "Examples:\n"
      "  foreshock query exp-42 train.loss --steps 1000:1100\n"
      "  foreshock query exp-42 attn.delta2.entropy_ratio_l1 --layer 3 --unit-id 0\n"
      "  foreshock query exp-42 train.loss --attempt 1     the values before the restart\n"
      "  foreshock query exp-42 --list                     which series there are\n"
      "  foreshock query exp-42 'router.*' -o json | jq '.results[].series'");
  verb->callback([&program, options, list, indicator] {
    if (!*list && indicator->empty()) throw CLI::RequiredError("INDICATOR (or --list)");
    program.exit_code =
        *list ? ListSeries(program.settings, *options) : Query(program.settings, *options);
  });
}

}  // namespace foreshock::cli
