#include "daemon/security/grpc_caller.h"

#include "daemon/security/grpc_status.h"

namespace foreshock::security {

Caller CallerOf(const grpc::ServerContextBase& context) {
  Caller caller{.peer = context.peer()};
  const auto& metadata = context.client_metadata();
  if (const auto header = metadata.find("authorization"); header != metadata.end()) {
    caller.authorization.assign(header->second.data(), header->second.size());
  }
  return caller;
}

grpc::Status Admit(const AccessControl* access, const grpc::ServerContextBase& context, Role role) {
  if (access == nullptr) return grpc::Status::OK;
  return ToGrpc(access->Admit(CallerOf(context), role).status());
}

}  // namespace foreshock::security
