// Who may ask what of the HTTP port.
#pragma once

#include "absl/status/status.h"
#include "daemon/http/server.h"
#include "daemon/security/access.h"

namespace foreshock::app {

// OK when the request's token, or its address where there are no tokens, allows what it asks for.
// The page's own files are open to everyone, and so are /-/healthy and /-/ready.
absl::Status AdmitHttp(const security::AccessControl& access, const http::HttpRequest& request);

}  // namespace foreshock::app
