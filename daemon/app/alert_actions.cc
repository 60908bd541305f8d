#include "daemon/app/alert_actions.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::app {

absl::StatusOr<v1::Alert> AlertActions::FindFiring(const std::string& id_prefix) const {
  if (id_prefix.empty()) return absl::InvalidArgumentError("no alert's id is given");
  v1::ListAlertsRequest all;
  all.set_limit(query::Answers::kAlertsMax);
  FORESHOCK_ASSIGN_OR_RETURN(const v1::ListAlertsResponse known, deps_.answers->ListAlerts(all));
  std::vector<const v1::Alert*> meant;
  for (const v1::Alert& alert : known.alerts()) {
    if (absl::StartsWith(alert.id(), id_prefix)) meant.push_back(&alert);
  }
  if (meant.size() != 1) {
    return absl::NotFoundError(absl::StrCat(meant.empty() ? "no alert" : "more than one alert",
                                            " has an id that begins with '", id_prefix,
                                            "'; `foreshock alerts` shows them"));
  }
  if (meant[0]->state() != v1::ALERT_STATE_FIRING) {
    return absl::FailedPreconditionError(
        absl::StrCat("alert ", meant[0]->id(), " is over: there is nothing to take on"));
  }
  return *meant[0];
}

absl::StatusOr<v1::Alert> AlertActions::Acknowledge(const v1::AcknowledgeAlertRequest& request) {
  FORESHOCK_RETURN_IF_ERROR(notify::CheckBy(request.by()));
  FORESHOCK_RETURN_IF_ERROR(notify::CheckWhy(request.why()));
  FORESHOCK_ASSIGN_OR_RETURN(const v1::Alert alert, FindFiring(request.id()));
  v1::Alert acknowledged;
  FORESHOCK_RETURN_IF_ERROR(deps_.pipeline->UpdateAlert(
      alert.run(), alert.id(), /*tell=*/true, [&](model::AlertRow* row) {
        v1::Acknowledgement* acknowledgement = row->mutable_alert()->mutable_acknowledgement();
        acknowledgement->set_by(request.by());
        acknowledgement->set_why(request.why());
        acknowledgement->set_time_unix_ns(absl::ToUnixNanos(deps_.clock->Now()));
        acknowledgement->set_severity(row->alert().severity());
        row->set_undelivered(true);
        acknowledged = row->alert();
      }));
  return acknowledged;
}

absl::StatusOr<v1::AcceptAlertResponse> AlertActions::Accept(
    const v1::AcceptAlertRequest& request) {
  FORESHOCK_RETURN_IF_ERROR(notify::CheckBy(request.by()));
  FORESHOCK_RETURN_IF_ERROR(notify::CheckWhy(request.why()));
  v1::AcceptAlertResponse response;
  FORESHOCK_ASSIGN_OR_RETURN(*response.mutable_alert(), FindFiring(request.id()));
  v1::Event* event = response.mutable_event();
  event->set_kind(v1::EVENT_KIND_LEVEL_ACCEPTED);
  event->set_step(response.alert().firing_step());
  event->set_name(response.alert().rule());
  event->set_detail(request.why().empty() ? absl::StrCat("by ", request.by())
                                          : absl::StrCat("by ", request.by(), ": ", request.why()));
  FORESHOCK_RETURN_IF_ERROR(deps_.pipeline->DeclareEvent(response.alert().run(), *event).status());
  return response;
}

absl::StatusOr<v1::Silence> AlertActions::Silence(const v1::SilenceAlertsRequest& request) {
  absl::StatusOr<v1::Silence> silence = deps_.silences->Add(request);
  deps_.outbox->LookAgain();
  return silence;
}

absl::StatusOr<v1::Silence> AlertActions::ExpireSilence(const std::string& id) {
  absl::StatusOr<v1::Silence> silence = deps_.silences->Expire(id);
  deps_.outbox->LookAgain();
  return silence;
}

}  // namespace foreshock::app
