// Measures how much room the runs and families of a database take.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const StoreUsage usage, ReadUsage(view));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/store/database.h"
#include "daemon/store/disk_store.h"
#include "daemon/store/read_view.h"

namespace foreshock::store {

// Counts live files, and rows that are in no file yet. It leaves out files that are about to be
// deleted, so a caller sees at once what a compaction has given back.
uint64_t LiveBytes(const Database& database);
// Estimates the rows of a run in table files. Rows in memory are left out: RocksDB's estimate for
// them may be a hundred times too large.
uint64_t RunBytes(const Database& database, uint32_t run);

// Fills in everything but StoreUsage::disk_bytes. Reads all rows.
absl::StatusOr<StoreUsage> ReadUsage(const ReadView& view);

}  // namespace foreshock::store
