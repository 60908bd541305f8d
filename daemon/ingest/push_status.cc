#include "daemon/ingest/push_status.h"

#include "daemon/security/grpc_status.h"
#include "foreshock/v1/errors.pb.h"

namespace foreshock::ingest {

grpc::Status ToPushStatus(const absl::Status& status, absl::Duration retry_delay) {
  if (absl::IsAlreadyExists(status)) {
    return security::ToGrpc(absl::FailedPreconditionError(status.message()));
  }
  const grpc::Status plain = security::ToGrpc(status);
  if (!absl::IsResourceExhausted(status)) return plain;

  v1::RetryInfo retry;
  const int64_t nanos = absl::ToInt64Nanoseconds(retry_delay);
  retry.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  v1::ErrorStatus details;
  details.set_code(plain.error_code());
  details.set_message(plain.error_message());
  google::protobuf::Any* any = details.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(retry.SerializeAsString());
  return grpc::Status(plain.error_code(), plain.error_message(), details.SerializeAsString());
}

}  // namespace foreshock::ingest
