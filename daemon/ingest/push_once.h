// One PushOnce call: the stream's protocol in a single request, served from start to end on one
// worker thread, which waits for the commits.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/ingest/ack_queue.h"
#include "daemon/ingest/service_core.h"
#include "daemon/ingest/stream.h"
#include "foreshock/v1/ingest.pb.h"
#include "grpcpp/support/server_callback.h"

namespace foreshock::ingest {

class PushOnceReactor final : public grpc::ServerUnaryReactor {
 public:
  // Deletes itself when the call is over.
  PushOnceReactor(ServiceCore* core, security::Caller caller, const v1::PushOnceRequest* request,
                  v1::PushOnceResponse* response);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  // What the sink's threads may reach after the call is over.
  struct Shared {
    base::Mutex mutex;
    base::CondVar changed;
    AckQueue acks ABSL_GUARDED_BY(mutex);
    absl::Status ended ABSL_GUARDED_BY(mutex);  // by the sink, or Cancelled by the caller
  };

  absl::Status Serve();
  absl::Status Submit(PushStream* stream, const v1::Report& report);
  // Waits, at most submit_wait_max, until everything submitted is acknowledged.
  absl::Status AwaitCommits();

  ServiceCore* const core_;
  const security::Caller caller_;
  const v1::PushOnceRequest* const request_;
  v1::PushOnceResponse* const response_;
  const std::shared_ptr<Shared> shared_;
  StreamState state_;
};

}  // namespace foreshock::ingest
