// A StoreBatch as one RocksDB write: keys, values and new ids.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/store/database.h"
#include "daemon/store/fold_queue.h"
#include "daemon/store/head_codec.h"
#include "daemon/store/id_table.h"
#include "daemon/store/read_view.h"
#include "daemon/store/store.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

// Remembers ids and sequence numbers between batches. After a batch that was not stored it must be
// loaded again. Thread-compatible.
class BatchWriter {
 public:
  explicit BatchWriter(Precision precision);

  absl::Status Load(const ReadView& view);

  // Appends the rows of `batch` to `out`, and the heads among them to `heads`. Through `view` it
  // reads series ids only.
  absl::Status Append(const StoreBatch& batch, const ReadView& view, rocksdb::WriteBatch* out,
                      std::vector<FoldQueue::NewHead>* heads);

  // Appends the removal of all rows of an existing run. Returns the number of its series.
  absl::StatusOr<uint64_t> AppendDeletion(const std::string& name, uint32_t run,
                                          const Database& database, rocksdb::WriteBatch* out);

  // The same, but the run's row, attempts, ranks, alerts and events stay. A retention row per
  // attempt says that its points are gone.
  absl::StatusOr<uint64_t> AppendEmptying(const std::string& name, uint32_t run,
                                          const ReadView& view, rocksdb::WriteBatch* out);

  uint64_t series() const { return ids_.series(); }  // of all runs
  uint32_t SeriesOfRun(uint32_t run) const { return ids_.SeriesOfRun(run); }

 private:
  // Adds a run with its name alone if there is none.
  absl::StatusOr<IdTable::RunEntry*> RunOf(const std::string& name, const Database& database,
                                           rocksdb::WriteBatch* out);
  absl::StatusOr<FoldQueue::NewHead> AppendStep(const model::ClosedStep& step, const ReadView& view,
                                                rocksdb::WriteBatch* out);
  absl::Status AppendReport(const StoreBatch::OfAttempt<model::ShardReport>& report,
                            const Database& database, rocksdb::WriteBatch* out);
  absl::Status AppendSettled(const StoreBatch::OfAttempt<int64_t>& settled,
                             const Database& database, rocksdb::WriteBatch* out);

  const Precision precision_;
  IdTable ids_;
  uint64_t next_seq_ = 1;          // of heads
  std::vector<HeadPoint> points_;  // of one step; kept for its memory
  // By (run id, attempt): below this step there are no open statistics. Absent: not known. With it
  // the ranges of successive deletions do not overlap; n overlapping ones cost a reader n^2.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, int64_t> open_floor_;
};

}  // namespace foreshock::store
