// Copies of a store. A backup directory holds any number of them, each whole and of one moment;
// files that did not change between two are there once (RocksDB's BackupEngine, which checksums
// every file). One that was broken off is no backup and is cleaned away by the next.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const BackupInfo info, store->Backup("/backup/foreshock/nightly"));
//   FORESHOCK_ASSIGN_OR_RETURN(info, RestoreBackup("/backup/foreshock/nightly", "/var/lib/fresh"));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace foreshock {

struct BackupInfo {
  uint32_t id = 0;  // counts up in its directory
  int64_t time_unix_s = 0;
  uint64_t bytes = 0;  // of its files, shared ones too
  uint64_t files = 0;
};

// Puts the newest backup of `backup_directory` into `directory`, which must not be there or be
// empty, and checks every file. Whole or not at all. Errors: NotFound when there is no whole
// backup, FailedPrecondition when `directory` is not empty, DataLoss when a file is not what was
// written; else as OpenStore.
absl::StatusOr<BackupInfo> RestoreBackup(const std::string& backup_directory,
                                         const std::string& directory);

namespace store {

class Database;

// Adds a backup of the database as it is at this moment to `backup_directory`, which is created if
// its parent exists, and reads it back. Errors: as writes, about the backup's directory.
absl::StatusOr<BackupInfo> CreateBackup(const Database& database,
                                        const std::string& backup_directory);

}  // namespace store
}  // namespace foreshock
