// The writer's knowledge of ids: runs by name, series by key within a run. Rows hold the ids, so a
// point costs 20 bytes of key instead of its series' names.
//
//   FORESHOCK_ASSIGN_OR_RETURN(IdTable::RunEntry* run, ids.FindOrAddRun("exp-42", &batch));
//   FORESHOCK_ASSIGN_OR_RETURN(uint32_t series, ids.FindOrAddSeries(view, run, key, &batch));
//
// New ids go into the batch that uses them, so both are stored or neither. After a batch that was
// not stored the table knows ids that do not exist: Load again. Only on the writer's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/model/rows.pb.h"
#include "daemon/store/database.h"
#include "daemon/store/read_view.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

class IdTable {
 public:
  struct RunEntry {
    uint32_t id = 0;
    uint32_t series = 0;  // how many there are
    uint32_t next_series = 1;
    uint64_t last_used = 0;
    // Read when first needed, dropped when other runs need the room.
    std::optional<absl::flat_hash_map<SeriesKey, uint32_t>> by_key;
  };

  // All series of all cached runs together, about 150 bytes each; one run may exceed it.
  explicit IdTable(size_t cached_series_max) : cached_series_max_(cached_series_max) {}

  // Reads the runs and counts their series.
  absl::Status Load(const ReadView& view);

  // nullptr if there is no such run. Valid until Load or Forget.
  RunEntry* FindRun(const std::string& name);
  // Puts `row` under the run's id, a new one if need be.
  absl::Status PutRun(const model::RunRow& row, rocksdb::WriteBatch* batch,
                      rocksdb::ColumnFamilyHandle* rows);
  absl::StatusOr<uint32_t> FindOrAddSeries(const ReadView& view, RunEntry* run,
                                           const SeriesKey& key, rocksdb::WriteBatch* batch,
                                           rocksdb::ColumnFamilyHandle* rows);
  void Forget(const std::string& name);

  // Of all runs.
  uint64_t series() const { return series_; }

 private:
  absl::Status LoadSeries(const ReadView& view, RunEntry* run);
  void MakeRoom(const RunEntry* keep);

  const size_t cached_series_max_;
  // By pointer: entries are handed out.
  absl::flat_hash_map<std::string, std::unique_ptr<RunEntry>> runs_;
  uint32_t next_run_ = 1;
  uint64_t series_ = 0;
  size_t cached_series_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace foreshock::store
