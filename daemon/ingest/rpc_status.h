// absl::Status -> grpc::Status with what proto/foreshock/v1/ingest.proto promises about codes.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"

namespace foreshock::ingest {

// AlreadyExists (another process holds the rank) becomes FAILED_PRECONDITION. ResourceExhausted
// carries RetryInfo{retry_delay} in grpc-status-details-bin.
grpc::Status ToGrpc(const absl::Status& status, absl::Duration retry_delay);

}  // namespace foreshock::ingest
