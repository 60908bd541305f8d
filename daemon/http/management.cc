#include "daemon/http/management.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"

namespace foreshock::http {
namespace {

HttpResponse Answer(const absl::Status& status, absl::string_view good, int bad_http_status) {
  if (status.ok()) return {.body = absl::StrCat(good, "\n")};
  return {.status = bad_http_status, .body = absl::StrCat(std::string(status.message()), "\n")};
}

}  // namespace

void AddManagementRoutes(ManagementHooks hooks, HttpServer* server) {
  FORESHOCK_CHECK(hooks.ready != nullptr);
  server->Handle("GET", "/-/healthy", [](const HttpRequest&) {
    return HttpResponse{.body = "Foreshock is healthy.\n"};
  });
  server->Handle("GET", "/-/ready", [ready = std::move(hooks.ready)](const HttpRequest&) {
    return Answer(ready(), "Foreshock is ready.", 503);
  });
  if (hooks.reload == nullptr) return;
  const HttpHandler reload = [run = std::move(hooks.reload)](const HttpRequest&) {
    return Answer(run(), "Reloaded.", 500);
  };
  server->Handle("POST", "/-/reload", reload);
  server->Handle("PUT", "/-/reload", reload);
}

}  // namespace foreshock::http
