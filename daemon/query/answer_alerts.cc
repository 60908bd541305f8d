#include <algorithm>
#include <tuple>

#include "daemon/base/status_macros.h"
#include "daemon/query/answers.h"
#include "daemon/query/limits.h"

namespace foreshock::query {
namespace {

int Gravity(const v1::Alert& alert) {
  return alert.severity() == "critical" ? 2 : alert.severity() == "warning" ? 1 : 0;
}

// Firing first, then the gravest, then the one that began last.
bool Before(const v1::Alert& a, const v1::Alert& b) {
  const auto key = [](const v1::Alert& alert) {
    return std::tuple(alert.state() != v1::ALERT_STATE_FIRING, -Gravity(alert),
                      -alert.pending_step(), alert.run(), alert.id());
  };
  return key(a) < key(b);
}

}  // namespace

absl::StatusOr<v1::ListAlertsResponse> Answers::ListAlerts(
    const v1::ListAlertsRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(const uint64_t limit,
                             internal::LimitOf(request.limit(), kAlertsDefault, kAlertsMax));
  if (!v1::AlertState_IsValid(request.state())) {
    return absl::InvalidArgumentError(
        absl::StrCat("state ", request.state(), ": unknown to this version"));
  }
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
      if (request.state() == v1::ALERT_STATE_UNSPECIFIED ||
          row.alert().state() == request.state()) {
        alerts.push_back(std::move(*row.mutable_alert()));
      }
    }
  }
  std::sort(alerts.begin(), alerts.end(), Before);
  if (alerts.size() > limit) alerts.resize(limit);
  v1::ListAlertsResponse response;
  for (v1::Alert& alert : alerts) {
    if (alert.state() == v1::ALERT_STATE_FIRING) {
      for (std::string& id : live_->SilencedBy(alert)) alert.add_silenced_by(std::move(id));
    }
    *response.add_alerts() = std::move(alert);
  }
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
