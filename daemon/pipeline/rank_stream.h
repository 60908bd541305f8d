// One admitted stream of one rank: summarises its reports on the caller's thread, puts them into
// the writer's inbox and carries acks back.
//
//   auto stream = std::make_shared<RankStream>(&inbox, hello, id, on_ack, on_end);
//   std::unique_ptr<PushStream> handle = RankStream::Handle(stream);   // for ingest
//   stream->Admit(admitted, hello_ack);                                // on the writer's thread
//   stream->SendAck(ack);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/ingest/sink.h"
#include "daemon/pipeline/inbox.h"
#include "daemon/pipeline/shard_report.h"
#include "daemon/pipeline/speakers.h"

namespace foreshock::pipeline {

// Shared by ingest's handle and the writer's thread.
class RankStream {
 public:
  // `inbox` outlives it.
  RankStream(Inbox* inbox, const v1::Hello& hello, StreamId id, ingest::PushStream::AckFn on_ack,
             ingest::PushStream::EndFn on_end);

  // What ingest holds; the stream ends when it goes.
  static std::unique_ptr<ingest::PushStream> Handle(std::shared_ptr<RankStream> stream);

  // By the writer's thread, before anyone else sees the stream.
  void Admit(const Admitted& admitted, const v1::HelloAck& hello_ack);

  // Thread-safe; nothing is called once the handle is gone.
  void SendAck(const v1::Ack& ack);
  void End(const absl::Status& status);

  StreamId id() const { return id_; }
  const std::string& run() const { return run_; }
  uint32_t attempt() const { return attempt_; }
  uint32_t rank() const { return reporter_.sender.rank; }
  const std::string& client_instance() const { return reporter_.client_instance; }

 private:
  class PushHandle;

  Inbox* const inbox_;
  const StreamId id_;
  const std::string run_;
  Reporter reporter_;
  uint32_t attempt_ = 0;
  v1::HelloAck hello_ack_;

  base::Mutex mutex_;
  ingest::PushStream::AckFn on_ack_ ABSL_GUARDED_BY(mutex_);
  ingest::PushStream::EndFn on_end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::pipeline
