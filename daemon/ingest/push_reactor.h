// One Push stream. Its life is a loop: read a message, check it, hand it to the sink, read the
// next; beside it acks go out, one write at a time.
//
// Threads come from everywhere (gRPC, the sink's writer, the worker pools, alarms). Each one that
// is inside counts in `busy_`; what to do next is decided in one place, NextAction, under the
// mutex, and done outside it. The stream is finished when an end is due, nothing is left to write
// and nobody is inside.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/ingest/ack_queue.h"
#include "daemon/ingest/admission.h"
#include "daemon/ingest/service_core.h"
#include "daemon/ingest/stream.h"
#include "foreshock/v1/ingest.pb.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/server_callback.h"

namespace foreshock::ingest {

class PushReactor final : public grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse> {
 public:
  PushReactor(ServiceCore* core,
              security::Caller caller);  // deletes itself when the stream is over

  // Ends the stream with UNAVAILABLE once everything submitted is acknowledged.
  static void Drain(const std::shared_ptr<ReactorHandle>& handle);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class Action { kNone, kWrite, kRead, kGoodbye, kFinish };

  // Calls `then` on the reactor if its stream is not over yet. (The analysis does not see that the
  // handle's mutex is the reactor's.)
  template <typename Then>
  static void With(const std::shared_ptr<ReactorHandle>& handle,
                   Then then) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  void Enter();
  void Leave();                          // does what is due; the last thing a thread does in here
  Action NextAction(grpc::Status* end);  // `end` is set with kFinish
  // Runs `then` on one of gRPC's threads, earlier if the stream must end meanwhile.
  void Defer(absl::Duration delay, void (PushReactor::*then)());
  bool RunOn(base::WorkerPool* pool, void (PushReactor::*then)());

  // Of the stream's own sequence: at most one thread at a time is in one of these.
  void OnMessage();
  void OnHello();
  absl::Status Admit(const std::string& run);
  void Open();
  void OnReport();
  void DispatchReport();
  void SubmitReport();
  void NoRoomForReport(const absl::Status& status, Refusal reason = Refusal::kOverload);
  void OnGoodbye();
  void SubmitGoodbye();
  void ReadNext();

  // The caller's token may have been revoked since; false: the stream ends.
  bool StillAdmitted();
  void EndWith(const absl::Status& status, Refusal reason);
  void OnAck(const v1::Ack& ack);
  void OnSinkEnd(const absl::Status& status);
  void WakeDeferred();
  bool Ending();

  ServiceCore* const core_;
  const security::Caller caller_;
  const std::shared_ptr<ReactorHandle> handle_;

  // Of the stream's own sequence.
  v1::PushRequest request_;
  size_t request_bytes_ = 0;
  StreamState state_;
  uint64_t access_version_ = 0;  // under which the caller was admitted
  std::string run_;
  std::string client_;
  Admission::Stream place_;
  std::unique_ptr<PushStream> stream_;
  std::vector<v1::Rejection> rejections_;  // of the report in request_
  int64_t retries_left_ = 0;
  bool spent_ = false;  // the report in request_ is counted against the client's bytes a second

  v1::PushResponse response_;  // of the write in flight

  int busy_ ABSL_GUARDED_BY(handle_->mutex) = 1;  // the constructor
  bool want_read_ ABSL_GUARDED_BY(handle_->mutex) = true;
  bool write_in_flight_ ABSL_GUARDED_BY(handle_->mutex) = false;
  bool goodbye_due_ ABSL_GUARDED_BY(handle_->mutex) = false;
  bool goodbye_given_ ABSL_GUARDED_BY(handle_->mutex) = false;  // received
  bool peer_gone_ ABSL_GUARDED_BY(handle_->mutex) = false;
  bool finished_ ABSL_GUARDED_BY(handle_->mutex) = false;
  std::optional<v1::HelloAck> hello_ack_ ABSL_GUARDED_BY(handle_->mutex);  // not yet written
  AckQueue acks_ ABSL_GUARDED_BY(handle_->mutex);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(handle_->mutex);  // how the stream will end
  bool end_after_commits_ ABSL_GUARDED_BY(handle_->mutex) = false;
  std::shared_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(handle_->mutex);  // of the last Defer
};

}  // namespace foreshock::ingest
