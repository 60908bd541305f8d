// One gRPC stream to the daemon, standing for one recorded rank. Loses nothing: a write waits until
// the daemon takes it, and every report is acknowledged or the stream fails.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/declarations.h"
#include "daemon/base/mutex.h"
#include "foreshock/v1/ingest.grpc.pb.h"

namespace foreshock::cli {

// Used by one thread; its own reader thread takes the daemon's answers.
class RankStream {
 public:
  // Opens the stream, says `hello` and waits for its HelloAck.
  static absl::StatusOr<std::unique_ptr<RankStream>> Open(v1::IngestService::Stub& ingest,
                                                          const v1::Hello& hello,
                                                          absl::Duration timeout);
  ~RankStream();

  uint32_t attempt() const { return hello_ack_.attempt(); }

  // Sends the report, unless an earlier replay of the same process had it committed: then false.
  absl::StatusOr<bool> Send(v1::Report report);
  absl::Status Send(const v1::Goodbye& goodbye);

  // Waits until no more than `reports_max` reports are un-acknowledged.
  absl::Status AwaitAcks(uint64_t reports_max, absl::Duration timeout);
  // Half-closes, waits for the rest of the answers and the final status.
  absl::Status Close(absl::Duration timeout);

  struct Counts {
    uint64_t acked_seq = 0;
    uint64_t duplicates = 0;
    uint64_t rejected = 0;             // summaries and reports
    uint64_t reports_rejected = 0;     // whole
    std::vector<std::string> reasons;  // of the first kReasonsMax
  };
  static constexpr size_t kReasonsMax = 8;
  Counts counts() const;

 private:
  RankStream(const v1::Hello& hello) : rank_(hello.rank()) {}
  absl::Status AwaitHelloAck(absl::Duration timeout);
  absl::Status Write(const v1::PushRequest& request);
  void ReadAnswers();
  void Take(const v1::Ack& ack) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why the stream ended, naming the rank.
  absl::Status FailureLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t rank_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream_;
  std::thread reader_;
  v1::HelloAck hello_ack_;  // written by the reader before greeted_ is set, then constant
  Declarations skipped_names_;
  uint64_t sent_seq_ = 0;
  bool half_closed_ = false;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::cli
