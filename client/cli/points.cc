#include "client/cli/points.h"

#include <google/protobuf/util/message_differencer.h>

#include <cstdint>
#include <utility>

#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

constexpr uint64_t kPointsPerCall = 200'000;

}  // namespace

absl::StatusOr<std::vector<v1::QueryPointsResponse>> ReadPoints(
    Connection& daemon, const v1::QueryPointsRequest& request) {
  using google::protobuf::util::MessageDifferencer;
  const auto context = daemon.Context();
  const auto reader = daemon.query().QueryPoints(context.get(), request);
  std::vector<v1::QueryPointsResponse> all;
  v1::QueryPointsResponse part;
  while (reader->Read(&part)) {
    if (!all.empty() && MessageDifferencer::Equals(all.back().series(), part.series())) {
      all.back().MergeFrom(part);
    } else {
      all.push_back(std::move(part));
    }
    part.Clear();
  }
  const absl::Status status = FromGrpc(reader->Finish());
  if (!status.ok()) return status;
  return all;
}

absl::Status VisitPoints(Connection& daemon, v1::QueryPointsRequest request,
                         const std::function<absl::Status(const v1::QueryPointsResponse&)>& visit) {
  request.set_limit(kPointsPerCall);
  do {
    const auto context = daemon.Context();
    const auto reader = daemon.query().QueryPoints(context.get(), request);
    request.clear_continuation();
    for (v1::QueryPointsResponse answer; reader->Read(&answer);) {
      FORESHOCK_RETURN_IF_ERROR(visit(answer));
      request.set_continuation(answer.continuation());
    }
    FORESHOCK_RETURN_IF_ERROR(FromGrpc(reader->Finish()));
  } while (!request.continuation().empty());
  return absl::OkStatus();
}

}  // namespace foreshock::cli
