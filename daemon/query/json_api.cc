#include "daemon/query/json_api.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "daemon/query/json.h"
#include "daemon/query/params.h"

namespace foreshock::query {
namespace {

using internal::JsonAnswer;
using internal::Params;
using internal::ToJson;

constexpr int64_t kStepMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kId32Max = std::numeric_limits<int32_t>::max();

// "firing" or "ALERT_STATE_FIRING"; an empty text is the unspecified value.
template <typename Enum>
absl::StatusOr<Enum> ParseEnum(absl::string_view parameter, const std::string& text,
                               absl::string_view prefix,
                               bool (*parse)(google::protobuf::ConstStringParam, Enum*),
                               const google::protobuf::EnumDescriptor* descriptor) {
  Enum value{};
  if (text.empty()) return value;
  const std::string upper = absl::AsciiStrToUpper(text);
  const std::string name = absl::StartsWith(upper, prefix) ? upper : absl::StrCat(prefix, upper);
  if (parse(name, &value) && value != Enum{}) return value;
  std::vector<std::string> allowed;
  for (int i = 1; i < descriptor->value_count(); ++i) {
    allowed.push_back(absl::AsciiStrToLower(descriptor->value(i)->name().substr(prefix.size())));
  }
  return absl::InvalidArgumentError(absl::StrCat("parameter '", parameter, "' is '", text,
                                                 "': allowed are ", absl::StrJoin(allowed, ", ")));
}

absl::Status ReadSelector(const Params& params, v1::SeriesSelector* selector) {
  FORESHOCK_ASSIGN_OR_RETURN(*selector->mutable_run(), params.Text("run"));
  FORESHOCK_ASSIGN_OR_RETURN(*selector->mutable_indicator(), params.Text("indicator"));
  FORESHOCK_ASSIGN_OR_RETURN(const auto layers, params.Integers("layer", -1, kId32Max));
  for (const int64_t layer : layers) selector->add_layers(static_cast<int32_t>(layer));
  FORESHOCK_ASSIGN_OR_RETURN(const std::string unit, params.Text("unit"));
  FORESHOCK_ASSIGN_OR_RETURN(
      const v1::Unit parsed,
      ParseEnum<v1::Unit>("unit", unit, "UNIT_", v1::Unit_Parse, v1::Unit_descriptor()));
  selector->set_unit(parsed);
  FORESHOCK_ASSIGN_OR_RETURN(const auto ids, params.Integers("unit_id", 0, kStepMax));
  for (const int64_t id : ids) selector->add_unit_ids(id);
  FORESHOCK_ASSIGN_OR_RETURN(*selector->mutable_unit_name(), params.Text("unit_name"));
  for (std::string& matcher : params.All("match")) *selector->add_matchers() = std::move(matcher);
  return absl::OkStatus();
}

// For requests with first_step, last_step and attempt.
template <typename Request>
absl::Status ReadRange(const Params& params, Request* request) {
  FORESHOCK_ASSIGN_OR_RETURN(const auto first, params.Integer("first_step", 0, kStepMax));
  if (first.has_value()) request->set_first_step(*first);
  FORESHOCK_ASSIGN_OR_RETURN(const auto last, params.Integer("last_step", 0, kStepMax));
  if (last.has_value()) request->set_last_step(*last);
  FORESHOCK_ASSIGN_OR_RETURN(const auto attempt, params.Integer("attempt", 1, kId32Max));
  if (attempt.has_value()) request->set_attempt(static_cast<uint32_t>(*attempt));
  return absl::OkStatus();
}

template <typename Response>
absl::StatusOr<std::string> Render(const absl::StatusOr<Response>& response) {
  FORESHOCK_RETURN_IF_ERROR(response.status());
  return ToJson(*response);
}

absl::StatusOr<std::string> Runs(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(const Params params, Params::Parse(http, {"name_prefix", "match"}));
  v1::ListRunsRequest request;
  FORESHOCK_ASSIGN_OR_RETURN(*request.mutable_name_prefix(), params.Text("name_prefix"));
  for (std::string& matcher : params.All("match")) *request.add_matchers() = std::move(matcher);
  return Render(answers.ListRuns(request));
}

absl::StatusOr<std::string> Run(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_RETURN_IF_ERROR(Params::Parse(http, {}).status());
  v1::GetRunRequest request;
  request.set_run(http.rest);
  return Render(answers.GetRun(request));
}

absl::StatusOr<std::string> IndicatorList(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_RETURN_IF_ERROR(Params::Parse(http, {}).status());
  return Render(answers.ListIndicators({}));
}

absl::StatusOr<std::string> Series(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(const Params params,
                             Params::Parse(http, {"run", "indicator", "layer", "unit", "unit_id",
                                                  "unit_name", "match", "limit"}));
  v1::ListSeriesRequest request;
  FORESHOCK_RETURN_IF_ERROR(ReadSelector(params, request.mutable_selector()));
  FORESHOCK_ASSIGN_OR_RETURN(const auto limit, params.Integer("limit", 1, Answers::kSeriesMax));
  if (limit.has_value()) request.set_limit(static_cast<uint32_t>(*limit));
  return Render(answers.ListSeries(request));
}

// {"results": [one QueryPointsResponse per series], "truncated": false}
absl::StatusOr<std::string> Points(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(
      const Params params,
      Params::Parse(
          http, {"run", "indicator", "layer", "unit", "unit_id", "unit_name", "match", "first_step",
                 "last_step", "attempt", "limit", "buckets_max", "continuation"}));
  v1::QueryPointsRequest request;
  FORESHOCK_RETURN_IF_ERROR(ReadSelector(params, request.mutable_selector()));
  FORESHOCK_RETURN_IF_ERROR(ReadRange(params, &request));
  FORESHOCK_ASSIGN_OR_RETURN(const auto limit, params.Integer("limit", 1, kJsonPointsMax));
  request.set_limit(static_cast<uint64_t>(limit.value_or(kJsonPointsDefault)));
  FORESHOCK_ASSIGN_OR_RETURN(const auto buckets, params.Integer("buckets_max", 1, kJsonPointsMax));
  request.set_buckets_max(static_cast<uint64_t>(buckets.value_or(0)));
  FORESHOCK_ASSIGN_OR_RETURN(*request.mutable_continuation(), params.Text("continuation"));
  FORESHOCK_ASSIGN_OR_RETURN(const auto stream, answers.QueryPoints(request));
  std::vector<v1::QueryPointsResponse> results;
  while (true) {
    FORESHOCK_ASSIGN_OR_RETURN(auto next, stream->Next());
    if (!next.has_value()) break;
    const bool same = !results.empty() && results.back().series().SerializeAsString() ==
                                              next->series().SerializeAsString();
    if (same) {
      results.back().MergeFrom(*next);
    } else {
      results.push_back(*std::move(next));
    }
  }
  std::vector<std::string> parts;
  for (const v1::QueryPointsResponse& result : results) {
    FORESHOCK_ASSIGN_OR_RETURN(parts.emplace_back(), ToJson(result));
  }
  const bool truncated = !results.empty() && results.back().truncated();
  return absl::StrCat("{\"results\":[", absl::StrJoin(parts, ","),
                      "],\"truncated\":", truncated ? "true" : "false", "}");
}

absl::StatusOr<std::string> Steps(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(
      const Params params,
      Params::Parse(http, {"run", "first_step", "last_step", "attempt", "limit"}));
  v1::ListStepsRequest request;
  FORESHOCK_ASSIGN_OR_RETURN(*request.mutable_run(), params.Text("run"));
  FORESHOCK_RETURN_IF_ERROR(ReadRange(params, &request));
  FORESHOCK_ASSIGN_OR_RETURN(const auto limit, params.Integer("limit", 1, kJsonPointsMax));
  if (limit.has_value()) request.set_limit(static_cast<uint64_t>(*limit));
  return Render(answers.ListSteps(request));
}

absl::StatusOr<std::string> AlertList(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(const Params params, Params::Parse(http, {"run", "state", "limit"}));
  v1::ListAlertsRequest request;
  FORESHOCK_ASSIGN_OR_RETURN(*request.mutable_run(), params.Text("run"));
  FORESHOCK_ASSIGN_OR_RETURN(const std::string state, params.Text("state"));
  FORESHOCK_ASSIGN_OR_RETURN(
      const v1::AlertState parsed,
      ParseEnum<v1::AlertState>("state", state, "ALERT_STATE_", v1::AlertState_Parse,
                                v1::AlertState_descriptor()));
  request.set_state(parsed);
  FORESHOCK_ASSIGN_OR_RETURN(const auto limit, params.Integer("limit", 1, Answers::kAlertsMax));
  if (limit.has_value()) request.set_limit(static_cast<uint32_t>(*limit));
  return Render(answers.ListAlerts(request));
}

absl::StatusOr<std::string> EventList(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(const Params params, Params::Parse(http, {"run"}));
  v1::ListEventsRequest request;
  FORESHOCK_ASSIGN_OR_RETURN(*request.mutable_run(), params.Text("run"));
  return Render(answers.ListEvents(request));
}

absl::StatusOr<std::string> SilenceList(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(const Params params, Params::Parse(http, {"expired"}));
  v1::ListSilencesRequest request;
  FORESHOCK_ASSIGN_OR_RETURN(const auto expired, params.Integer("expired", 0, 1));
  request.set_expired(expired.value_or(0) == 1);
  return Render(answers.ListSilences(request));
}

absl::StatusOr<std::string> RuleList(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(const Params params, Params::Parse(http, {"files"}));
  v1::ListRulesRequest request;
  FORESHOCK_ASSIGN_OR_RETURN(const auto files, params.Integer("files", 0, 1));
  request.set_files(files.value_or(0) == 1);
  return Render(answers.ListRules(request));
}

absl::StatusOr<std::string> BandList(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(const Params params, Params::Parse(http, {"indicator"}));
  v1::ListBandsRequest request;
  FORESHOCK_ASSIGN_OR_RETURN(*request.mutable_indicator(), params.Text("indicator"));
  return Render(answers.ListBands(request));
}

// HTTP does not tell that the client has left: a backtest that nobody waits for ends by its limits.
absl::StatusOr<std::string> RuleBacktest(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_RETURN_IF_ERROR(Params::Parse(http, {}).status());
  v1::BacktestRulesRequest request;
  FORESHOCK_RETURN_IF_ERROR(internal::FromJson(http, &request));
  return Render(answers.BacktestRules(request, [] { return false; }));
}

absl::StatusOr<std::string> RuleExplanation(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_ASSIGN_OR_RETURN(const Params params, Params::Parse(http, {"run", "rule", "step"}));
  v1::ExplainRequest request;
  FORESHOCK_ASSIGN_OR_RETURN(*request.mutable_run(), params.Text("run"));
  FORESHOCK_ASSIGN_OR_RETURN(*request.mutable_rule(), params.Text("rule"));
  FORESHOCK_ASSIGN_OR_RETURN(const auto step, params.Integer("step", 0, kStepMax));
  if (step.has_value()) request.set_step(*step);
  return Render(answers.Explain(request, [] { return false; }));
}

absl::StatusOr<std::string> StatusPage(const Answers& answers, const http::HttpRequest& http) {
  FORESHOCK_RETURN_IF_ERROR(Params::Parse(http, {}).status());
  return Render(answers.GetStatus({}));
}

}  // namespace

void AddJsonRoutes(const Answers* answers, http::HttpServer* server) {
  using Page = absl::StatusOr<std::string> (*)(const Answers&, const http::HttpRequest&);
  constexpr std::pair<const char*, Page> kPages[] = {
      {"/api/v1/runs", Runs},
      {"/api/v1/runs/*", Run},
      {"/api/v1/indicators", IndicatorList},
      {"/api/v1/series", Series},
      {"/api/v1/points", Points},
      {"/api/v1/steps", Steps},
      {"/api/v1/alerts", AlertList},
      {"/api/v1/events", EventList},
      {"/api/v1/silences", SilenceList},
      {"/api/v1/rules", RuleList},
      {"/api/v1/rules/explain", RuleExplanation},
      {"/api/v1/bands", BandList},
      {"/api/v1/status", StatusPage},
  };
  for (const auto& [path, page] : kPages) {
    server->Handle("GET", path, [answers, make = page](const http::HttpRequest& request) {
      return JsonAnswer(make(*answers, request));
    });
  }
  server->Handle("POST", "/api/v1/rules/backtest", [answers](const http::HttpRequest& request) {
    return JsonAnswer(RuleBacktest(*answers, request));
  });
}

}  // namespace foreshock::query
