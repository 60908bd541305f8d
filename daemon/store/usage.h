// What takes how much room in a database.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/store/database.h"
#include "daemon/store/disk_store.h"
#include "daemon/store/read_view.h"

namespace foreshock::store {

// Of live files, and of rows that are in no file yet. Files that nobody reads any more and that go
// in a moment do not count, so a caller sees at once what a compaction has given back.
uint64_t LiveBytes(const Database& database);
// Of the rows of a run in table files, about. What RocksDB says of rows in memory is a guess that
// may be a hundred times too much.
uint64_t RunBytes(const Database& database, uint32_t run);

// Everything but StoreUsage::disk_bytes. Reads all rows.
absl::StatusOr<StoreUsage> ReadUsage(const ReadView& view);

}  // namespace foreshock::store
