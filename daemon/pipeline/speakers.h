// Who speaks for the ranks of one attempt, and how far each process has been committed. A rank is
// one process at a time; a process that has died may be followed by another.
//
//   Speakers speakers("exp-42", 1, snapshot_options, &stats);
//   FORESHOCK_ASSIGN_OR_RETURN(const Admitted admitted, speakers.Greet(hello, stream, &batch));
//   if (speakers.Knows(report)) return;   // it was committed before
//   speakers.Mark(report, /*step_holds=*/true, &batch);
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/indicators/snapshots.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/shards.pb.h"
#include "daemon/pipeline/shard_report.h"
#include "daemon/pipeline/stats.h"
#include "daemon/store/store.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::pipeline {

using StreamId = uint64_t;  // 0: none

// What an admitted stream needs to know.
struct Admitted {
  uint32_t attempt = 0;
  uint64_t last_committed_seq = 0;
  std::shared_ptr<SharedSnapshots> snapshots{};
  StreamId replaced = 0;  // an older stream of the same process, to be ended
};

// Only on the writer's thread. Every call costs O(log ranks); changed rows go into the batch.
class Speakers {
 public:
  struct Process {
    model::RankRow row;
    std::shared_ptr<SharedSnapshots> snapshots;  // null: it has said goodbye, or never hello here
  };
  struct Rank {
    std::map<std::string, Process> processes;             // by client_instance
    v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;        // of its last Goodbye; unset by a Hello
    std::map<std::string, Process>::iterator connection;  // valid while stream != 0
    StreamId stream = 0;
  };

  // `stats` outlives it.
  Speakers(std::string run, uint32_t attempt, indicators::Snapshots::Options snapshots,
           PipelineStats* stats)
      : run_(std::move(run)), attempt_(attempt), snapshots_(snapshots), stats_(stats) {}

  // A process speaks for a rank from now on. Errors: AlreadyExists while another process does,
  // InvalidArgument when the rank said other coordinates before.
  absl::StatusOr<Admitted> Greet(const v1::Hello& hello, StreamId stream, store::StoreBatch* batch);

  // Whether the report was committed before.
  bool Knows(const model::ShardReport& report) const;
  // Takes note of a report that is new. `step_holds`: its step is taken for true.
  void Mark(const model::ShardReport& report, bool step_holds, store::StoreBatch* batch);

  void Goodbye(uint32_t rank, const std::string& client_instance, v1::Outcome outcome,
               store::StoreBatch* batch);
  void StreamEnded(uint32_t rank, StreamId stream);

  // A stored row, after a restart.
  void Restore(model::RankRow row);

  // How the attempt ended: the gravest that a rank said. Unset while one has not said.
  std::optional<v1::RunState> outcome() const;
  size_t connected() const { return connected_; }
  // Streams that were admitted and have not ended, those that were replaced included.
  size_t streams() const { return streams_; }
  const std::map<uint32_t, Rank>& ranks() const { return ranks_; }

 private:
  void SetOutcome(v1::Outcome outcome, Rank* rank);
  void Disconnect(Rank* rank);

  const std::string run_;
  const uint32_t attempt_;
  const indicators::Snapshots::Options snapshots_;
  PipelineStats* const stats_;
  std::map<uint32_t, Rank> ranks_;
  size_t ranks_by_outcome_[v1::Outcome_ARRAYSIZE] = {};
  size_t connected_ = 0;
  size_t streams_ = 0;
};

}  // namespace foreshock::pipeline
