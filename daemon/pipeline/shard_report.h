// One report of one rank as the writer takes it: its payloads reduced to additive statistics. Used
// by a live stream, and by a backtest that reads the same reports from a capture.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/mutex.h"
#include "daemon/indicators/snapshots.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"
#include "daemon/model/stream_names.h"
#include "daemon/pipeline/stats.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::pipeline {

// The weight snapshots of one process, shared by its stream and the one that replaces it after a
// reconnect. Used on the callers' threads.
struct SharedSnapshots {
  SharedSnapshots(indicators::Snapshots::Options options, PipelineStats* stats)
      : snapshots(options), stats(stats) {}
  ~SharedSnapshots() { stats->snapshot_bytes -= snapshots.bytes(); }

  base::Mutex mutex;
  indicators::Snapshots snapshots ABSL_GUARDED_BY(mutex);
  PipelineStats* const stats;
};

// Who reports, as its Hello and its admission said.
struct Reporter {
  indicators::Sender sender;
  std::string client_instance;
  uint64_t committed_seq = 0;  // reports up to it are known: they are taken as empty
  std::shared_ptr<SharedSnapshots> snapshots{};
};

// `report` has passed ingest's validation. What only the numbers show to be wrong is left out and
// appended to `rejections`. Counts what it sees in the stats of the reporter's snapshots.
model::ShardReport SummariseReport(const v1::Report& report, const model::StreamNames& names,
                                   const Reporter& reporter,
                                   std::vector<v1::Rejection>* rejections);

}  // namespace foreshock::pipeline
