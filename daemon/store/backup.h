// Copies of a store. A backup directory holds any number of them, each whole and of one moment.
// Files that did not change between two backups are there once. RocksDB's BackupEngine does it, and
// gives every file a checksum. An interrupted backup does not count, and the next one removes its
// files.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const BackupInfo info, store->Backup("/backup/foreshock/nightly"));
//   FORESHOCK_ASSIGN_OR_RETURN(info, RestoreBackup("/backup/foreshock/nightly", "/var/lib/fresh"));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace foreshock::store {

struct BackupInfo {
  uint32_t id = 0;  // rises in its directory
  int64_t time_unix_s = 0;
  uint64_t bytes = 0;  // of its files, shared ones too
  uint64_t files = 0;
};

// Puts the newest backup of `backup_directory` into `directory`, which must be missing or empty. It
// checks every file, and restores all or nothing. NotFound: there is no whole backup.
// FailedPrecondition: `directory` is not empty. DataLoss: a file is not what was written. Else as
// OpenStore.
absl::StatusOr<BackupInfo> RestoreBackup(const std::string& backup_directory,
                                         const std::string& directory);

class Database;

// Adds a backup of the database at this moment to `backup_directory`, and reads it back. The
// directory is created if its parent exists. Errors as Store::Write, about `backup_directory`.
absl::StatusOr<BackupInfo> CreateBackup(const Database& database,
                                        const std::string& backup_directory);

}  // namespace foreshock::store
