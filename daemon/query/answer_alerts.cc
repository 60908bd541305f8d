#include <algorithm>
#include <tuple>

#include "daemon/base/status_macros.h"
#include "daemon/model/alert_labels.h"
#include "daemon/model/severity.h"
#include "daemon/query/answers.h"
#include "daemon/query/limits.h"
#include "daemon/query/matchers.h"

namespace foreshock::query {
namespace {

// What people are told of first, then the most severe, then the one that began last.
bool Before(const v1::Alert& a, const v1::Alert& b) {
  const auto rank = [](v1::AlertStanding standing) {
    switch (standing) {
      case v1::ALERT_STANDING_FIRING:
        return 0;
      case v1::ALERT_STANDING_SILENCED:
        return 1;
      case v1::ALERT_STANDING_RUN_ENDED:
        return 2;
      default:
        return 3;
    }
  };
  const auto key = [&rank](const v1::Alert& alert) {
    return std::tuple(rank(alert.standing()), -static_cast<int>(model::SeverityOf(alert)),
                      -alert.pending_step(), alert.run(), alert.id());
  };
  return key(a) < key(b);
}

// What a request asks for, checked.
struct Wanted {
  const v1::ListAlertsRequest& request;
  std::optional<model::Severity> severity_min{};
  std::vector<base::LabelMatcher> matchers{};

  // All but the standing.
  bool Matches(const v1::Alert& alert) const;
  bool Stands(const v1::Alert& alert) const {
    return request.standings().empty() ||
           std::find(request.standings().begin(), request.standings().end(), alert.standing()) !=
               request.standings().end();
  }
};

bool Wanted::Matches(const v1::Alert& alert) const {
  if (request.state() != v1::ALERT_STATE_UNSPECIFIED && alert.state() != request.state()) {
    return false;
  }
  if (severity_min.has_value() && model::SeverityOf(alert) < *severity_min) return false;
  if (!model::MatchesAll(matchers, alert)) return false;
  if (request.has_first_step() && alert.has_resolved_step() &&
      alert.resolved_step() < request.first_step()) {
    return false;
  }
  if (request.has_last_step() && alert.pending_step() > request.last_step()) return false;
  const bool timed = request.since_unix_ns() != 0 || request.until_unix_ns() != 0;
  if (!timed) return true;
  if (alert.fired_unix_ns() == 0) return false;
  const bool before = alert.ended_unix_ns() != 0 && alert.ended_unix_ns() < request.since_unix_ns();
  const bool after =
      request.until_unix_ns() != 0 && alert.fired_unix_ns() > request.until_unix_ns();
  return !before && !after;
}

absl::StatusOr<Wanted> Check(const v1::ListAlertsRequest& request) {
  Wanted wanted{.request = request};
  if (!v1::AlertState_IsValid(request.state())) {
    return absl::InvalidArgumentError(
        absl::StrCat("state ", request.state(), ": unknown to this version"));
  }
  for (const int standing : request.standings()) {
    if (!v1::AlertStanding_IsValid(standing)) {
      return absl::InvalidArgumentError(
          absl::StrCat("standing ", standing, ": unknown to this version"));
    }
  }
  if (!request.severity_min().empty()) {
    wanted.severity_min = model::ParseSeverity(request.severity_min());
    if (!wanted.severity_min.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("severity_min is '", request.severity_min(),
                                                     "'; allowed are info, warning, critical"));
    }
  }
  FORESHOCK_ASSIGN_OR_RETURN(wanted.matchers, internal::ParseMatchers(request.matchers()));
  return wanted;
}

}  // namespace

absl::StatusOr<v1::ListAlertsResponse> Answers::ListAlerts(
    const v1::ListAlertsRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(const uint64_t limit,
                             internal::LimitOf(request.limit(), kAlertsDefault, kAlertsMax));
  FORESHOCK_ASSIGN_OR_RETURN(const Wanted wanted, Check(request));
  std::vector<std::string> runs;
  if (request.run().empty()) {
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::RunRow> rows, store_->Runs());
    for (const model::RunRow& row : rows) runs.push_back(row.name());
  } else {
    FORESHOCK_RETURN_IF_ERROR(FindRun(request.run()).status());
    runs.push_back(request.run());
  }
  std::vector<v1::Alert> alerts;
  for (const std::string& run : runs) {
    absl::StatusOr<std::vector<model::AlertRow>> rows = store_->Alerts(run);
    if (absl::IsNotFound(rows.status()) && request.run().empty()) continue;  // just deleted
    FORESHOCK_RETURN_IF_ERROR(rows.status());
    for (model::AlertRow& row : *rows) {
      v1::Alert& alert = *row.mutable_alert();
      alert.set_fired_unix_ns(row.fired_unix_ns());
      alert.set_ended_unix_ns(row.ended_unix_ns());
      if (!wanted.Matches(alert)) continue;
      live_->Judge(&alert);
      if (wanted.Stands(alert)) alerts.push_back(std::move(alert));
    }
  }
  std::sort(alerts.begin(), alerts.end(), Before);
  if (alerts.size() > limit) alerts.resize(limit);
  v1::ListAlertsResponse response;
  for (v1::Alert& alert : alerts) *response.add_alerts() = std::move(alert);
  return response;
}

absl::StatusOr<v1::ListSilencesResponse> Answers::ListSilences(
    const v1::ListSilencesRequest& request) const {
  v1::ListSilencesResponse response;
  for (v1::Silence& silence : live_->Silences(request.expired())) {
    *response.add_silences() = std::move(silence);
  }
  return response;
}

absl::StatusOr<v1::ListEventsResponse> Answers::ListEvents(
    const v1::ListEventsRequest& request) const {
  FORESHOCK_RETURN_IF_ERROR(FindRun(request.run()).status());
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::EventRow> rows,
                             store_->Events(request.run()));
  v1::ListEventsResponse response;
  for (const model::EventRow& row : rows) {
    v1::RunEvent* event = response.add_events();
    event->set_attempt(row.attempt());
    *event->mutable_event() = row.event();
    event->set_time_unix_ns(row.time_unix_ns());
  }
  return response;
}

}  // namespace foreshock::query
