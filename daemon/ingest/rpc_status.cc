#include "daemon/ingest/rpc_status.h"

#include <string>

#include "foreshock/v1/errors.pb.h"

namespace foreshock::ingest {

grpc::Status ToGrpc(const absl::Status& status, absl::Duration retry_delay) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message());
  grpc::StatusCode code = static_cast<grpc::StatusCode>(status.code());  // equal by definition
  if (status.code() == absl::StatusCode::kAlreadyExists) code = grpc::FAILED_PRECONDITION;
  if (code != grpc::RESOURCE_EXHAUSTED) return grpc::Status(code, message);

  v1::RetryInfo retry;
  const int64_t nanos = absl::ToInt64Nanoseconds(retry_delay);
  retry.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  v1::ErrorStatus details;
  details.set_code(code);
  details.set_message(message);
  google::protobuf::Any* any = details.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(retry.SerializeAsString());
  return grpc::Status(code, message, details.SerializeAsString());
}

}  // namespace foreshock::ingest
