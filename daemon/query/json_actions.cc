#include "daemon/query/json_actions.h"

#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/query/json.h"

namespace foreshock::query {
namespace {

using internal::FromJson;
using internal::JsonAnswer;

constexpr const char* kAcknowledge = "/api/v1/alerts/acknowledge";
constexpr const char* kAccept = "/api/v1/alerts/accept";
constexpr const char* kSilence = "/api/v1/silences";
constexpr const char* kExpireSilence = "/api/v1/silences/expire";

absl::StatusOr<std::string> Acknowledge(const JsonActions& actions, const http::HttpRequest& http) {
  v1::AcknowledgeAlertRequest request;
  FORESHOCK_RETURN_IF_ERROR(FromJson(http, &request));
  v1::AcknowledgeAlertResponse response;
  FORESHOCK_ASSIGN_OR_RETURN(*response.mutable_alert(), actions.acknowledge(request));
  return internal::ToJson(response);
}

absl::StatusOr<std::string> Accept(const JsonActions& actions, const http::HttpRequest& http) {
  v1::AcceptAlertRequest request;
  FORESHOCK_RETURN_IF_ERROR(FromJson(http, &request));
  FORESHOCK_ASSIGN_OR_RETURN(const v1::AcceptAlertResponse response, actions.accept(request));
  return internal::ToJson(response);
}

absl::StatusOr<std::string> Silence(const JsonActions& actions, const http::HttpRequest& http) {
  v1::SilenceAlertsRequest request;
  FORESHOCK_RETURN_IF_ERROR(FromJson(http, &request));
  v1::SilenceAlertsResponse response;
  FORESHOCK_ASSIGN_OR_RETURN(*response.mutable_silence(), actions.silence(request));
  return internal::ToJson(response);
}

absl::StatusOr<std::string> ExpireSilence(const JsonActions& actions,
                                          const http::HttpRequest& http) {
  v1::ExpireSilenceRequest request;
  FORESHOCK_RETURN_IF_ERROR(FromJson(http, &request));
  v1::ExpireSilenceResponse response;
  FORESHOCK_ASSIGN_OR_RETURN(*response.mutable_silence(), actions.expire_silence(request.id()));
  return internal::ToJson(response);
}

}  // namespace

void AddJsonActions(JsonActions actions, http::HttpServer* server) {
  using Action = absl::StatusOr<std::string> (*)(const JsonActions&, const http::HttpRequest&);
  constexpr std::pair<const char*, Action> kActions[] = {{kAcknowledge, Acknowledge},
                                                         {kAccept, Accept},
                                                         {kSilence, Silence},
                                                         {kExpireSilence, ExpireSilence}};
  for (const auto& [path, action] : kActions) {
    server->Handle("POST", path, [actions, act = action](const http::HttpRequest& request) {
      return JsonAnswer(act(actions, request));
    });
  }
}

void RefuseJsonActions(http::HttpServer* server) {
  for (const char* path : {kAcknowledge, kAccept, kSilence, kExpireSilence}) {
    server->Handle("POST", path, [](const http::HttpRequest&) {
      return http::ErrorResponse(absl::PermissionDeniedError(
          "http.actions is off in the daemon's configuration; `foreshock alerts ack` and "
          "`foreshock alerts silence` do it over gRPC"));
    });
  }
}

}  // namespace foreshock::query
