// Whether a database is a Foreshock store of today's format. Any other is refused with what was
// found, what is allowed and what to do. docs/formats/migration.md says how a later format is
// added.
//
//   FORESHOCK_RETURN_IF_ERROR(CheckFamilies(db_options, directory, names));  // before it is opened
//   FORESHOCK_RETURN_IF_ERROR(CheckFormat(options, *database));              // after
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/store/database.h"
#include "daemon/store/store.h"
#include "rocksdb/options.h"

namespace foreshock::store {

// FailedPrecondition if the database has column families that today's format does not have. Changes
// nothing in the directory.
absl::Status CheckFamilies(const rocksdb::DBOptions& options, const std::string& directory,
                           const std::vector<std::string>& families);

// Checks the format row. A database without any row gets one, unless options.read_only.
absl::Status CheckFormat(const StoreOptions& options, const Database& database);

}  // namespace foreshock::store
