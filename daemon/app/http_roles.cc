#include "daemon/app/http_roles.h"

#include "absl/strings/match.h"

namespace foreshock::app {
namespace {

// Everything that tells or changes something is below /api/ or /-/, or is /metrics. The rest are
// the page's own files: they hold no data, and a browser that opens a page shows no token. Nor do
// supervisors.
bool IsOpen(const http::HttpRequest& request) {
  if (request.path == "/-/healthy" || request.path == "/-/ready") return true;
  return request.path != "/metrics" && !absl::StartsWith(request.path, "/api/") &&
         !absl::StartsWith(request.path, "/-/");
}

// A request that changes something needs an operator, unless it is listed here.
security::Role RoleFor(const http::HttpRequest& request) {
  if (request.path == "/-/reload") return security::Role::kAdmin;
  if (request.path == "/api/v1/rules/backtest") return security::Role::kRead;  // it changes nothing
  return request.method == "GET" || request.method == "HEAD" ? security::Role::kRead
                                                             : security::Role::kOperate;
}

}  // namespace

absl::Status AdmitHttp(const security::AccessControl& access, const http::HttpRequest& request) {
  if (IsOpen(request)) return absl::OkStatus();
  return access
      .Admit({.peer = request.remote_address, .authorization = request.authorization},
             RoleFor(request))
      .status();
}

}  // namespace foreshock::app
