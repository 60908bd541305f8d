// Series read from the daemon, whole.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

// The streamed answers of one query, those of one series joined; in the daemon's order.
absl::StatusOr<std::vector<v1::QueryPointsResponse>> ReadPoints(
    Connection& daemon, const v1::QueryPointsRequest& request);

}  // namespace foreshock::cli
