// The routes a supervisor uses: /-/healthy, /-/ready, /-/reload.
//
//   AddManagementRoutes({.ready = [&] { return app.Readiness(); }}, &server);
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "daemon/http/server.h"

namespace foreshock::http {

struct ManagementHooks {
  // OK: able to serve. Else /-/ready answers 503 with the message.
  std::function<absl::Status()> ready;
  // Reads configuration and rules again, all or nothing. Null: /-/reload does not exist.
  std::function<absl::Status()> reload;
};

// GET (and HEAD) /-/healthy: 200 while the process answers. GET /-/ready. POST or PUT /-/reload:
// 200, or 500 with the reason while the old configuration stays in force.
void AddManagementRoutes(ManagementHooks hooks, HttpServer* server);

}  // namespace foreshock::http
