// What can be changed over HTTP: acknowledging, accepting and silencing alerts, with the messages
// of AdminService as JSON (docs/api.md).
//
//   AddJsonActions({.acknowledge = ..., .silence = ..., .expire_silence = ...}, &http_server);
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/http/server.h"
#include "foreshock/v1/admin.pb.h"

namespace foreshock::query {

// All must be set; called from several threads at once.
struct JsonActions {
  std::function<absl::StatusOr<v1::Alert>(const v1::AcknowledgeAlertRequest&)> acknowledge;
  std::function<absl::StatusOr<v1::AcceptAlertResponse>(const v1::AcceptAlertRequest&)> accept;
  std::function<absl::StatusOr<v1::Silence>(const v1::SilenceAlertsRequest&)> silence;
  std::function<absl::StatusOr<v1::Silence>(const std::string& id)> expire_silence;
};

// POST /api/v1/alerts/acknowledge, /api/v1/alerts/accept, /api/v1/silences and
// /api/v1/silences/expire.
void AddJsonActions(JsonActions actions, http::HttpServer* server);

// The same paths where the configuration does not allow them: each answers 403.
void RefuseJsonActions(http::HttpServer* server);

}  // namespace foreshock::query
