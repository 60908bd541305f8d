// absl::Status as the status of a gRPC call.
//
//   reactor->Finish(security::ToGrpc(status));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace foreshock::security {

// The codes of both are equal by definition.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

}  // namespace foreshock::security
