// From format 0, which had a row per point and no checksums, to the one of today.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/store/database.h"
#include "rocksdb/db.h"

namespace foreshock::store {

// Seals every row, and puts the points in `old_points` and the step rows into chunks. Takes up
// where an earlier call ended, by a row that says how far that came. The caller writes the format
// row and drops the family then; until then the directory needs room for both forms. Logs its
// progress. Errors: as Store::Write, and DataLoss naming a row of format 0 that does not decode:
// nothing of it is lost by the migration, a program of format 0 can still open the store until the
// first call.
absl::Status MigrateFormat0(const std::string& directory, const Database& database,
                            rocksdb::ColumnFamilyHandle* old_points);

}  // namespace foreshock::store
