// The client behind its face: the queue, the background thread that keeps a stream to the daemon,
// and the counters. Thread-safe; lock order: mutex_ only, never held during a gRPC call.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/src/channel.h"
#include "client/cpp/src/names.h"
#include "client/cpp/src/send_queue.h"
#include "client/cpp/src/stream.h"
#include "daemon/base/backoff.h"
#include "daemon/base/mutex.h"
#include "foreshock/client.h"

namespace foreshock::client_internal {

class Sender {
 public:
  // `options` are valid, client_instance is set; `instance_is_ours` if no other process used it.
  Sender(const ClientOptions& options, bool instance_is_ours);
  ~Sender();

  absl::StatusOr<uint32_t> DeclareScalar(const ScalarOptions& scalar);
  absl::Status Push(v1::Report report);
  bool WaitForRoom(size_t bytes, absl::Duration timeout);
  absl::Status Flush(absl::Duration timeout);
  absl::Status Close(v1::Outcome outcome, absl::Duration timeout);
  uint64_t acked_seq() const;
  ClientStats stats() const;

 private:
  // The background thread.
  void Run();
  absl::Status RefreshStub();         // reads the credentials' files again
  grpc::Status RunStream();           // from Hello to the end of one stream
  bool AwaitHelloAck();               // false: the stream is of no use
  void WriteReports(Stream* stream);  // until the stream ends or the Goodbye is written
  absl::Duration HandleEnd(const grpc::Status& status);  // how long to wait before the next stream
  void StopAndJoin();

  // The stream's reader thread.
  void OnResponse(const v1::PushResponse& response);
  QueuedReports OnHelloAck(const v1::HelloAck& ack) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  QueuedReports OnAck(const v1::Ack& ack) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnRejection(const v1::Rejection& rejection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Distrust(std::string what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status PushPart(v1::Report part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status UsableLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepReason(std::string reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StreamIsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop_ || stream_ended_ || !distrust_.empty();
  }

  const ClientOptions options_;
  const bool instance_is_ours_;
  v1::PushRequest hello_;

  // Background thread only.
  Secrets secrets_;                                // that the stub shows
  std::unique_ptr<v1::IngestService::Stub> stub_;  // null: none yet
  const base::Backoff backoff_;
  int failures_ = 0;  // streams that ended in a row without progress
  std::mt19937_64 random_{std::random_device{}()};

  mutable base::Mutex mutex_;
  base::CondVar work_;     // for the background thread while it has a stream and nothing to send
  base::CondVar changed_;  // for everyone else: callers, and the background thread without a stream
  SendQueue queue_ ABSL_GUARDED_BY(mutex_);
  Names names_ ABSL_GUARDED_BY(mutex_);
  ClientStats stats_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_seq_ ABSL_GUARDED_BY(mutex_) = 0;  // given to a report
  size_t message_bytes_max_ ABSL_GUARDED_BY(mutex_);
  absl::Time resume_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // the daemon asked to wait
  v1::PushRequest goodbye_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // the background thread has nothing more to do

  // Of the present stream.
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stream_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  bool progressed_ ABSL_GUARDED_BY(mutex_) = false;
  bool goodbye_written_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t committed_before_ ABSL_GUARDED_BY(mutex_) = 0;  // HelloAck.last_committed_seq
  std::string distrust_ ABSL_GUARDED_BY(mutex_);  // how the daemon broke the contract; empty: not

  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace foreshock::client_internal
