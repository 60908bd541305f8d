// A StoreBatch as one RocksDB write: keys, values and new ids.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/store/database.h"
#include "daemon/store/head_codec.h"
#include "daemon/store/id_table.h"
#include "daemon/store/read_view.h"
#include "daemon/store/store.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

// What the writer remembers between batches. After a batch that was not stored it must be loaded
// again. Only on the writer's thread.
class BatchWriter {
 public:
  explicit BatchWriter(Precision precision);

  absl::Status Load(const ReadView& view);

  // A head that Append has made.
  struct NewHead {
    uint32_t run = 0;
    uint32_t run_series = 0;  // that the run has now
    uint64_t points = 0;
  };

  // Appends the rows of `batch` to `out`. Reads only what it needs to know of ids, through `view`.
  absl::StatusOr<std::vector<NewHead>> Append(const StoreBatch& batch, const Database& database,
                                              const ReadView& view, rocksdb::WriteBatch* out);

  // Appends the removal of everything of a run; the number of its series. NotFound is the caller's.
  absl::StatusOr<uint64_t> AppendDeletion(const std::string& name, uint32_t run,
                                          const Database& database, rocksdb::WriteBatch* out);

  // Appends the removal of everything of a run but its runs, attempts, ranks, alerts and events;
  // a retention row per attempt says that its points are gone.
  absl::Status AppendEmptying(const std::string& name, uint32_t run,
                              const std::vector<model::AttemptRow>& attempts, const ReadView& view,
                              const Database& database, rocksdb::WriteBatch* out);

  uint64_t series() const { return ids_.series(); }  // of all runs
  uint32_t SeriesOfRun(uint32_t run) const { return ids_.SeriesOfRun(run); }

 private:
  // Adds the run by its name alone if nobody has put it.
  absl::StatusOr<IdTable::RunEntry*> RunOf(const std::string& name, const Database& database,
                                           rocksdb::WriteBatch* out);
  absl::StatusOr<NewHead> AppendStep(const ClosedStep& step, const Database& database,
                                     const ReadView& view, rocksdb::WriteBatch* out);
  absl::Status AppendReport(const StoreBatch::OfAttempt<model::ShardReport>& report,
                            const Database& database, rocksdb::WriteBatch* out);
  absl::Status AppendSettled(const StoreBatch::OfAttempt<int64_t>& settled,
                             const Database& database, rocksdb::WriteBatch* out);

  const Precision precision_;
  IdTable ids_;
  uint64_t next_seq_ = 1;          // of heads
  std::vector<HeadPoint> points_;  // of one step; kept for its memory
  // By (run id, attempt): no open statistics lie below this step. Absent: not known. It keeps the
  // ranges of successive deletions apart; overlapping ones cost a reader their square.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, int64_t> open_floor_;
};

}  // namespace foreshock::store
