// The ids of runs by name, and of series by key within a run. Rows hold ids, so a point costs a
// byte of id instead of the names of its series.
//
//   ids.BeginStep(run);
//   FORESHOCK_ASSIGN_OR_RETURN(const IdTable::Series* series,
//                              ids.FindOrAddSeries(view, run, key, &batch, rows));
//
// New ids go into the batch that uses them, so both are stored or neither. After a batch that was
// not stored the table must be loaded again: it knows ids that do not exist. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/model/catalogue.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/series.h"
#include "daemon/store/database.h"
#include "daemon/store/read_view.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

class IdTable {
 public:
  struct Series {
    uint32_t id = 0;
    model::Storage storage = model::Storage::kF64;
    double precision = 0;  // that the catalogue declares
    // The series that came after it in the last step. Steps are alike, so one comparison finds most
    // series.
    std::pair<const model::SeriesKey, Series>* next = nullptr;
  };
  using SeriesByKey = absl::node_hash_map<model::SeriesKey, Series>;  // entries point to each other

  struct RunEntry {
    uint32_t id = 0;
    uint32_t series = 0;  // how many there are
    uint32_t next_series = 1;
    uint64_t last_used = 0;
    // Is read when first needed, and dropped when other runs need the room.
    std::optional<SeriesByKey> by_key;
    SeriesByKey::value_type* first = nullptr;  // series of a step
    SeriesByKey::value_type* last = nullptr;   // series that was found in this step
  };

  // `cached_series_max`: of all cached runs together, about 170 bytes each. One run may exceed it.
  explicit IdTable(size_t cached_series_max) : cached_series_max_(cached_series_max) {}

  // Reads the runs and counts their series.
  absl::Status Load(const ReadView& view);

  // nullptr if there is no such run. Valid until Load or Forget.
  RunEntry* FindRun(const std::string& name);
  // Puts `row` under the run's id, or under a new id.
  absl::Status PutRun(const model::RunRow& row, rocksdb::WriteBatch* batch,
                      rocksdb::ColumnFamilyHandle* rows);
  // Is called before the series of a step are looked up.
  void BeginStep(RunEntry* run) { run->last = nullptr; }
  // Valid until the next call.
  absl::StatusOr<const Series*> FindOrAddSeries(const ReadView& view, RunEntry* run,
                                                const model::SeriesKey& key,
                                                rocksdb::WriteBatch* batch,
                                                rocksdb::ColumnFamilyHandle* rows);
  void Forget(const std::string& name);
  // Forgets the series; the run stays.
  void ForgetSeries(const std::string& name);

  // Of all runs.
  uint64_t series() const { return series_; }
  // 0 if there is no such run.
  uint32_t SeriesOfRun(uint32_t run) const;

 private:
  absl::Status LoadSeries(const ReadView& view, RunEntry* run);
  static void Drop(RunEntry* run);
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
