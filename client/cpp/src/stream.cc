#include "client/cpp/src/stream.h"

#include <utility>

#include "foreshock/v1/errors.pb.h"

namespace foreshock::client_internal {

Stream::Stream(v1::IngestService::Stub* stub, Callbacks callbacks)
    : callbacks_(std::move(callbacks)), call_(stub->Push(&context_)), reader_([this] { Read(); }) {}

Stream::~Stream() {
  if (!reader_.joinable()) return;
  Cancel();
  (void)Finish();
}

bool Stream::Write(const v1::PushRequest& request, bool more_follows) {
  grpc::WriteOptions options;
  if (more_follows) options.set_buffer_hint();
  return call_->Write(request, options);
}

void Stream::WritesDone() { call_->WritesDone(); }

void Stream::Cancel() { context_.TryCancel(); }

grpc::Status Stream::Finish() {
  reader_.join();
  return call_->Finish();
}

void Stream::Read() {
  v1::PushResponse response;
  while (call_->Read(&response)) callbacks_.on_response(response);
  callbacks_.on_end();
}

std::optional<absl::Duration> RetryDelay(const grpc::Status& status) {
  v1::ErrorStatus details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& any : details.details()) {
    v1::RetryInfo retry;
    if (any.type_url() == "type.googleapis.com/google.rpc.RetryInfo" &&
        retry.ParseFromString(any.value())) {
      return absl::Seconds(retry.retry_delay().seconds()) +
             absl::Nanoseconds(retry.retry_delay().nanos());
    }
  }
  return std::nullopt;
}

}  // namespace foreshock::client_internal
