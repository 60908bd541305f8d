// What can be said about a data directory before RocksDB touches it.
//
//   FORESHOCK_RETURN_IF_ERROR(PrepareDirectory("/var/lib/foreshock"));   // exists, ours, writable
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace foreshock::store {

// Creates the directory if only its last part is missing, and checks that it is empty or looks like
// a RocksDB directory, and that a file can be written in it. Errors as OpenStore.
absl::Status PrepareDirectory(const std::string& directory);

// True if there is a RocksDB database in it (a file CURRENT).
bool HasDatabase(const std::string& directory);

// Writes `bytes` into a file without a name and lets it go: ResourceExhausted when there is no
// room, PermissionDenied when nothing may be written.
absl::Status ProbeWrite(const std::string& directory, uint64_t bytes);

// The process that holds RocksDB's lock on the directory; 0: none, or not known. Must not be called
// while this process holds it: POSIX drops a process's locks with the first descriptor it closes.
pid_t LockHolder(const std::string& directory);

// Where damaged logs are kept for whoever wants to look into them: a folder in the directory.
std::string KeptLogs(const std::string& directory);
// Keeps the logs there as they are now (as hard links), beside those that are there already.
absl::Status KeepLogs(const std::string& directory);
// Forgets those that are still logs of the database.
void DropKeptLogs(const std::string& directory);

// Sum of the file sizes.
uint64_t DirectoryBytes(const std::string& directory);

}  // namespace foreshock::store
