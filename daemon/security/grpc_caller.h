// What a gRPC call shows of its caller.
#pragma once

#include "absl/status/status.h"
#include "daemon/security/access.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"

namespace foreshock::security {

Caller CallerOf(const grpc::ServerContextBase& context);

// OK, or the call's answer. `access` may be null: everything is open.
grpc::Status Admit(const AccessControl* access, const grpc::ServerContextBase& context, Role role);

}  // namespace foreshock::security
