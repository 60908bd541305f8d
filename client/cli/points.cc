#include "client/cli/points.h"

#include <google/protobuf/util/message_differencer.h>

#include <utility>

namespace foreshock::cli {

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

}  // namespace foreshock::cli
