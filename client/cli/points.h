// Series read from the daemon, whole.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

// The streamed answers of one query, those of one series joined; in the daemon's order.
absl::StatusOr<std::vector<v1::QueryPointsResponse>> ReadPoints(
    Connection& daemon, const v1::QueryPointsRequest& request);

// The answers of one query of any length, one after the other, asked for in calls that each end
// within --timeout. `visit` says whether to go on.
absl::Status VisitPoints(Connection& daemon, v1::QueryPointsRequest request,
                         const std::function<absl::Status(const v1::QueryPointsResponse&)>& visit);

}  // namespace foreshock::cli
