// What ingest hands to the rest of the daemon: admitted streams and validated reports.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/model/stream_names.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::ingest {

// One admitted stream of one rank, from Hello to its end. Calls come from one thread at a time.
class PushStream {
 public:
  // Called from the writer's thread, never from inside Submit; must be quick and not call back.
  using AckFn = std::function<void(const v1::Ack&)>;
  // Called once if the stream must end early, for example while draining.
  using EndFn = std::function<void(const absl::Status&)>;

  virtual ~PushStream() = default;  // the stream ended; without a Goodbye it says nothing

  virtual const v1::HelloAck& hello_ack() const = 0;

  // Takes a report whose invalid summaries were already cleared: they have no payload, the others
  // keep their index (`rejections` says which; they go into the Ack of this report). Computes what
  // is per payload on the calling thread, then queues the result for commit. `names` is only read
  // during the call. Errors: ResourceExhausted when the queue stays full or the store cannot be
  // written (the report was not taken; the sender may repeat it later), Unavailable while draining.
  virtual absl::Status Submit(const v1::Report& report, const model::StreamNames& names,
                              std::vector<v1::Rejection> rejections) = 0;

  // Called when every report submitted before is acknowledged. An Ack, of any seq, says that it is
  // committed. Errors: as above.
  virtual absl::Status Submit(const v1::Goodbye& goodbye) = 0;
};

class ReportSink {
 public:
  virtual ~ReportSink() = default;

  // Admits a rank: finds or makes the run and the attempt, and answers with the last committed seq
  // of this client_instance. Waits for the writer's thread; thread-safe.
  // Errors: AlreadyExists when another live process holds the same rank of the launch;
  // InvalidArgument when it contradicts the run (world size, coordinates or model shape differ
  // within one launch); ResourceExhausted at the limit of runs or streams; Unavailable while
  // draining.
  virtual absl::StatusOr<std::unique_ptr<PushStream>> Open(const v1::Hello& hello,
                                                           PushStream::AckFn on_ack,
                                                           PushStream::EndFn on_end) = 0;
};

}  // namespace foreshock::ingest
