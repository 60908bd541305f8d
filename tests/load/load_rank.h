// One simulated rank: a gRPC stream to the daemon that is opened again when it ends, and what
// became of its reports. It has no thread of its own; gRPC's few threads and the one that paces
// call it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "foreshock/v1/ingest.grpc.pb.h"
#include "tests/load/load_options.h"
#include "tests/load/load_reports.h"

namespace foreshock::load {

// Of one rank, or summed over all.
struct RankCounts {
  uint64_t due = 0;       // reports whose time has come
  uint64_t sent = 0;      // written, again too
  uint64_t acked = 0;     // acknowledged, each once
  uint64_t rejected = 0;  // reports and summaries
  uint64_t greeted = 0;   // streams that were let in
  uint64_t ended = 0;     // streams that ended before their Goodbye
  uint64_t open = 0;      // streams that are let in now
  uint64_t finished = 0;  // ranks whose Goodbye was confirmed
};

// Thread-safe. Must outlive its streams: Stop, then wait for idle().
class LoadRank {
 public:
  LoadRank(const LoadOptions& options, const ReportMaker& maker, uint32_t rank,
           std::shared_ptr<grpc::Channel> channel);
  ~LoadRank();
  LoadRank(const LoadRank&) = delete;
  LoadRank& operator=(const LoadRank&) = delete;

  // Opens a stream if there is none and the wait after the last one is over.
  void Connect(absl::Time now);
  // When the report of step 0 is due; the others follow by the interval.
  void Begin(absl::Time first_due);
  // Reports before step `steps` are due now; never less than before.
  void SetDue(int64_t steps);
  // No more becomes due: says Goodbye once everything is acknowledged.
  void Finish();
  // Cancels the stream; none is opened any more.
  void Stop();
  bool idle() const;

  RankCounts counts() const;
  // The acks' latencies in milliseconds, from the moment the report was due, from `from` on.
  void AppendLatencies(size_t from, std::vector<float>* out) const;
  // Why the last stream ended, and the first rejection; empty: none has.
  std::string last_error() const;
  std::string rejection() const;

 private:
  class Call;

  void OnResponse(const v1::PushResponse& response);
  void OnWritten(bool ok);
  void OnEnd(const grpc::Status& status);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LoadOptions& options_;
  const ReportMaker& maker_;
  const v1::Hello hello_;
  const std::unique_ptr<v1::IngestService::Stub> stub_;

  mutable base::Mutex mutex_;
  Call* call_ ABSL_GUARDED_BY(mutex_) = nullptr;  // deletes itself
  bool open_ ABSL_GUARDED_BY(mutex_) = false;     // HelloAck has come
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool declared_ ABSL_GUARDED_BY(mutex_) = false;
  bool goodbye_written_ ABSL_GUARDED_BY(mutex_) = false;
  bool finish_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time connect_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  v1::PushRequest request_ ABSL_GUARDED_BY(mutex_);  // being written, unless !writing_
  int64_t next_step_ ABSL_GUARDED_BY(mutex_) = 0;    // to be written
  absl::Time first_due_ ABSL_GUARDED_BY(mutex_);
  RankCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> latencies_ms_ ABSL_GUARDED_BY(mutex_);
  std::string last_error_ ABSL_GUARDED_BY(mutex_);
  std::string rejection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::load
