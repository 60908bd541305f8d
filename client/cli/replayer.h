// Sends recorded messages to a daemon as the ranks once did: one stream a rank, in recorded order.
//
//   Replayer replayer(daemon.ingest(), {.run = "demo"});
//   while (reader.Next(&record)) replayer.Send(record);
//   replayer.Finish();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/rank_stream.h"
#include "foreshock/v1/capture.pb.h"
#include "foreshock/v1/ingest.grpc.pb.h"

namespace foreshock::cli {

struct ReplayOptions {
  std::string run;   // empty: as recorded
  double speed = 0;  // recorded seconds per second; 0: as fast as the daemon takes it
  absl::Duration timeout = absl::Seconds(30);  // without any answer from the daemon
  // Per rank. Bounds how far ranks run ahead of each other when the daemon is the slower one.
  uint64_t unacked_reports_max = 64;
};

struct ReplayTotals {
  std::string run;
  std::set<uint32_t> attempts;
  uint64_t streams = 0;
  uint64_t reports = 0;           // sent
  uint64_t skipped = 0;           // not sent: committed by an earlier replay
  uint64_t duplicates = 0;        // sent, but committed before
  uint64_t rejected = 0;          // reports, and single summaries of others
  uint64_t reports_rejected = 0;  // whole
  int64_t last_step = -1;
  std::vector<std::string> reasons;  // the first rejections
};

// Thread-compatible.
class Replayer {
 public:
  Replayer(v1::IngestService::Stub& ingest, ReplayOptions options);

  // A Hello of another launch first waits until the launch before it is acknowledged and closed, so
  // that its attempt cannot overtake the old one.
  absl::Status Send(v1::CaptureRecord record);
  // Waits for the last acknowledgement and closes all streams.
  absl::Status Finish();

  const ReplayTotals& totals() const { return totals_; }

 private:
  absl::Status Greet(uint32_t stream, v1::Hello hello);
  void WaitForTurn(int64_t time_unix_ns);
  absl::Status CloseAll();

  v1::IngestService::Stub& ingest_;
  const ReplayOptions options_;
  std::map<uint32_t, std::unique_ptr<RankStream>> streams_;
  std::string launch_id_;
  ReplayTotals totals_;
  int64_t first_unix_ns_ = 0;  // recorded time of the first report
  absl::Time started_;
};

}  // namespace foreshock::cli
