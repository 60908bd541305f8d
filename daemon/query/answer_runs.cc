#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"
#include "daemon/query/answers.h"
#include "daemon/query/matchers.h"

namespace foreshock::query {

using internal::MatchesAll;
using internal::ParseMatchers;

namespace {

v1::RunState StateOf(const model::AttemptRow& row, uint32_t connected) {
  if (connected > 0) return v1::RUN_STATE_LIVE;
  return row.state() == v1::RUN_STATE_UNSPECIFIED ? v1::RUN_STATE_SILENT : row.state();
}

v1::Attempt MakeAttempt(const model::AttemptRow& row, uint32_t connected) {
  v1::Attempt attempt;
  attempt.set_number(row.number());
  attempt.set_launch_id(row.launch_id());
  if (row.has_parent()) attempt.set_parent(row.parent());
  if (row.has_first_step()) attempt.set_first_step(row.first_step());
  if (row.has_last_step()) attempt.set_last_step(row.last_step());
  attempt.set_started_unix_ns(row.started_unix_ns());
  if (row.has_judged()) *attempt.mutable_judged() = row.judged();
  attempt.set_world_size(row.world_size());
  attempt.set_ranks_connected(connected);
  attempt.set_state(StateOf(row, connected));
  return attempt;
}

absl::string_view StorageName(model::Storage storage) {
  switch (storage) {
    case model::Storage::kF32:
      return "f32";
    case model::Storage::kF64:
      return "f64";
    case model::Storage::kI64:
      return "i64";
  }
  return "";
}

}  // namespace

absl::StatusOr<model::RunRow> Answers::FindRun(const std::string& run) const {
  if (run.empty()) return absl::InvalidArgumentError("run: required");
  return store_->Run(run);
}

absl::StatusOr<v1::Run> Answers::MakeRun(const model::RunRow& row) const {
  v1::Run run;
  run.set_name(row.name());
  *run.mutable_model() = row.model();
  *run.mutable_labels() = row.labels();
  run.set_pinned(row.pinned());
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::AttemptRow> attempts, store_->Attempts(row.name()));
  std::sort(attempts.begin(), attempts.end(),
            [](const auto& a, const auto& b) { return a.number() < b.number(); });
  const std::map<uint32_t, uint32_t> connected = live_->Connected(row.name());
  for (const model::AttemptRow& attempt : attempts) {
    const auto ranks = connected.find(attempt.number());
    *run.add_attempts() = MakeAttempt(attempt, ranks == connected.end() ? 0 : ranks->second);
    // The newest attempt that closed a step is where training is, even before it has caught up
    // with its parent.
    if (attempt.has_last_step()) run.set_last_step(attempt.last_step());
  }
  if (!attempts.empty()) run.set_state(run.attempts().rbegin()->state());
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::SeriesKey> series,
                             store_->Series(row.name(), {}));
  run.set_series(series.size());
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AlertRow> alerts, store_->Alerts(row.name()));
  run.set_alerts_firing(static_cast<uint32_t>(
      std::count_if(alerts.begin(), alerts.end(), [](const model::AlertRow& alert) {
        return alert.alert().state() == v1::ALERT_STATE_FIRING;
      })));
  return run;
}

absl::StatusOr<v1::ListRunsResponse> Answers::ListRuns(const v1::ListRunsRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::RunRow> rows, store_->Runs());
  std::sort(rows.begin(), rows.end(), [](const model::RunRow& a, const model::RunRow& b) {
    return std::tuple(-a.created_unix_ns(), a.name()) < std::tuple(-b.created_unix_ns(), b.name());
  });
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<base::LabelMatcher> matchers,
                             ParseMatchers(request.matchers()));
  v1::ListRunsResponse response;
  for (const model::RunRow& row : rows) {
    if (!absl::StartsWith(row.name(), request.name_prefix())) continue;
    if (!MatchesAll(matchers, row)) continue;
    absl::StatusOr<v1::Run> run = MakeRun(row);
    if (absl::IsNotFound(run.status())) continue;  // deleted in between
    FORESHOCK_RETURN_IF_ERROR(run.status());
    *response.add_runs() = *std::move(run);
  }
  return response;
}

absl::StatusOr<v1::GetRunResponse> Answers::GetRun(const v1::GetRunRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(const model::RunRow row, FindRun(request.run()));
  v1::GetRunResponse response;
  FORESHOCK_ASSIGN_OR_RETURN(*response.mutable_run(), MakeRun(row));
  return response;
}

absl::StatusOr<v1::ListIndicatorsResponse> Answers::ListIndicators(
    const v1::ListIndicatorsRequest&) const {
  v1::ListIndicatorsResponse response;
  for (const model::IndicatorInfo& info : model::Indicators()) {
    v1::Indicator* indicator = response.add_indicators();
    indicator->set_id(std::string(info.id));
    indicator->set_unit(std::string(info.quantity));
    indicator->set_range(std::string(info.range));
    indicator->set_version(info.version);
    indicator->set_storage(std::string(StorageName(info.storage)));
    indicator->set_help(std::string(info.help));
  }
  return response;
}

absl::StatusOr<v1::ListRulesResponse> Answers::ListRules(
    const v1::ListRulesRequest& request) const {
  v1::ListRulesResponse response;
  std::vector<v1::RuleInfo> rules = live_->Rules();
  for (v1::RuleInfo& rule : rules) *response.add_rules() = std::move(rule);
  if (!request.files()) return response;
  for (v1::RuleFile& file : live_->RuleFiles()) *response.add_files() = std::move(file);
  return response;
}

absl::StatusOr<v1::ListBandsResponse> Answers::ListBands(
    const v1::ListBandsRequest& request) const {
  return live_->Bands(request.indicator());
}

absl::StatusOr<v1::GetStatusResponse> Answers::GetStatus(const v1::GetStatusRequest&) const {
  v1::GetStatusResponse response = live_->Status();
  const store::StoreStats stats = store_->Stats();
  response.set_series(stats.series);
  response.set_store_bytes(stats.bytes);
  response.set_store_writable(stats.writable);
  response.set_points_written(stats.points_written);
  return response;
}

}  // namespace foreshock::query
