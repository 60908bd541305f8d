// One admitted stream of one rank: summarises its reports on the caller's thread and queues them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/mutex.h"
#include "daemon/ingest/sink.h"
#include "daemon/pipeline/run_state.h"
#include "daemon/pipeline/shard_report.h"

namespace foreshock {

class Pipeline;

// The state shared between the ingest's handle (RankStreamHandle) and the writer's thread.
class RankStream {
 public:
  RankStream(Pipeline* pipeline, const v1::Hello& hello, StreamId id, PushStream::AckFn on_ack,
             PushStream::EndFn on_end);

  // Set by the writer's thread when the stream is admitted, before anyone else sees it.
  void Admit(const RunState::Admitted& admitted, const v1::HelloAck& hello_ack);

  absl::Status Submit(const v1::Report& report, const StreamNames& names,
                      std::vector<v1::Rejection> rejections,
                      const std::shared_ptr<RankStream>& self);

  // Thread-safe; nothing is called after Detach has returned.
  void SendAck(const v1::Ack& ack);
  void End(const absl::Status& status);
  void Detach();

  StreamId id() const { return id_; }
  const std::string& run() const { return run_; }
  uint32_t attempt() const { return attempt_; }
  uint32_t rank() const { return reporter_.sender.rank; }
  const std::string& client_instance() const { return reporter_.client_instance; }
  const v1::HelloAck& hello_ack() const { return hello_ack_; }
  Pipeline* pipeline() const { return pipeline_; }

 private:
  Pipeline* const pipeline_;
  const StreamId id_;
  const std::string run_;
  Reporter reporter_;
  uint32_t attempt_ = 0;
  v1::HelloAck hello_ack_;

  Mutex mutex_;
  PushStream::AckFn on_ack_ ABSL_GUARDED_BY(mutex_);
  PushStream::EndFn on_end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock
