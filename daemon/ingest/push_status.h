// The status that ends a Push call, with what proto/foreshock/v1/ingest.proto promises about codes.
//
//   reactor->Finish(ToPushStatus(status, options.retry_delay));
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"

namespace foreshock::ingest {

// AlreadyExists (another process holds the rank) becomes FAILED_PRECONDITION. ResourceExhausted
// carries RetryInfo{retry_delay} in grpc-status-details-bin.
grpc::Status ToPushStatus(const absl::Status& status, absl::Duration retry_delay);

}  // namespace foreshock::ingest
