#include "client/cli/compared_runs.h"

#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/points.h"
#include "client/cli/progress.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

constexpr uint64_t kAlertsOfRun = 10'000;
constexpr uint64_t kStepsPerCall = 10'000;

uint32_t FlagBits(const v1::Point& point) {
  uint32_t bits = 0;
  for (const int flag : point.flags()) bits |= flag > 0 ? 1u << (flag - 1) : 0u;
  return bits;
}

model::SeriesKey KeyOf(const v1::Series& series) {
  return {.indicator = series.indicator(),
          .layer = series.has_layer() ? static_cast<int32_t>(series.layer()) : model::kNoLayer,
          .unit = static_cast<model::Unit>(series.unit()),
          .unit_id = series.unit_id(),
          .unit_name = series.unit_name()};
}

absl::Status ReadStoredTokens(Connection& daemon, backtest::RecordedRun* run) {
  v1::ListStepsRequest request;
  request.set_run(run->name);
  request.set_limit(kStepsPerCall);
  v1::ListStepsResponse response;
  do {
    const auto context = daemon.Context();
    FORESHOCK_RETURN_IF_ERROR(
        FromGrpc(daemon.query().ListSteps(context.get(), request, &response)));
    for (const v1::Step& step : response.steps()) {
      if (step.tokens() > 0) run->tokens[step.step()] = step.tokens();
      request.set_first_step(step.step() + 1);
    }
  } while (static_cast<uint64_t>(response.steps_size()) == kStepsPerCall);
  return absl::OkStatus();
}

}  // namespace

bool NamesCapture(const std::string& argument) {
  return absl::EndsWith(argument, ".fscap") || absl::EndsWith(argument, ".jsonl");
}

absl::StatusOr<backtest::RecordedRun> ReadComparedCapture(
    const std::string& path, std::shared_ptr<const rules::RuleSet> rules,
    const std::vector<std::string>& indicators) {
  Progress progress("read", 100);
  return backtest::ReadCaptureRun(
      path, std::move(rules), indicators, [&](uint64_t done, uint64_t total, int64_t step) {
        progress.Update(total == 0 ? 0 : 100 * done / total, absl::StrCat(path, ", step ", step));
      });
}

absl::StatusOr<backtest::RecordedRun> ReadStoredAlerts(Connection& daemon, const std::string& run) {
  backtest::RecordedRun recorded;
  recorded.name = run;
  v1::GetRunRequest get;
  get.set_run(run);
  v1::GetRunResponse known;
  FORESHOCK_RETURN_IF_ERROR(FromGrpc(daemon.query().GetRun(daemon.Context().get(), get, &known)));
  v1::ListAlertsRequest request;
  request.set_run(run);
  request.set_limit(kAlertsOfRun);
  v1::ListAlertsResponse response;
  FORESHOCK_RETURN_IF_ERROR(
      FromGrpc(daemon.query().ListAlerts(daemon.Context().get(), request, &response)));
  for (v1::Alert& alert : *response.mutable_alerts()) {
    if (alert.has_firing_step()) recorded.alerts.push_back(std::move(alert));
  }
  return recorded;
}

absl::Status ReadStoredCurves(Connection& daemon, const std::vector<std::string>& indicators,
                              bool tokens, backtest::RecordedRun* run) {
  backtest::RunRecorder recorder;
  const std::vector<std::string> all = {"*"};
  std::set<std::string> seen;  // a series that two patterns name is taken once
  for (const std::string& indicator : indicators.empty() ? all : indicators) {
    v1::QueryPointsRequest request;
    request.mutable_selector()->set_run(run->name);
    if (indicator != "*") request.mutable_selector()->set_indicator(indicator);
    std::set<std::string> now;
    FORESHOCK_RETURN_IF_ERROR(
        VisitPoints(daemon, request, [&](const v1::QueryPointsResponse& answer) {
          if (seen.count(answer.series().indicator()) > 0) return absl::OkStatus();
          now.insert(answer.series().indicator());
          const model::SeriesKey key = KeyOf(answer.series());
          for (const v1::Point& point : answer.points()) {
            FORESHOCK_RETURN_IF_ERROR(
                recorder.Add(key, point.step(), point.value(), FlagBits(point)));
          }
          return absl::OkStatus();
        }));
    seen.merge(now);
  }
  run->series = recorder.Finish().series;
  return tokens ? ReadStoredTokens(daemon, run) : absl::OkStatus();
}

}  // namespace foreshock::cli
