// Why an address cannot be listened on, which gRPC does not tell.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace foreshock::rpc {

// InvalidArgument unless `address` is host:port, [v6]:port or unix:/path.
absl::Status CheckListenAddress(const std::string& address);

// Unavailable "cannot listen on <address>: <what the system says>".
absl::Status ListenError(const std::string& address);

}  // namespace foreshock::rpc
