// One Push stream: its gRPC call, a writer (the caller) and a reader thread. Of the client's state
// it knows nothing but the callbacks.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "foreshock/v1/ingest.grpc.pb.h"

namespace foreshock::client_internal {

class Stream {
 public:
  struct Callbacks {  // on the reader thread
    std::function<void(const v1::PushResponse&)> on_response;
    std::function<void()> on_end;  // nothing more comes
  };

  Stream(v1::IngestService::Stub* stub, Callbacks callbacks);
  ~Stream();  // cancels
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // One thread at a time; waits while the daemon takes no more. False when the stream has ended.
  // `more_follows` lets gRPC hold the bytes back until the next call.
  bool Write(const v1::PushRequest& request, bool more_follows);
  void WritesDone();

  // Ends the call from any thread: Write returns false.
  void Cancel();

  // Waits for the daemon's last word. Writing thread, once.
  grpc::Status Finish();

 private:
  void Read();

  const Callbacks callbacks_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> call_;
  std::thread reader_;
};

// The delay of a RetryInfo in the status's details; none if there is no such thing in it.
std::optional<absl::Duration> RetryDelay(const grpc::Status& status);

}  // namespace foreshock::client_internal
