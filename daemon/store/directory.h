// Checks a data directory before RocksDB touches it.
//
//   FORESHOCK_RETURN_IF_ERROR(PrepareDirectory("/var/lib/foreshock"));   // exists, ours, writable
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace foreshock::store {

// Creates the directory if only its last part is missing. Checks that it is empty or looks like a
// RocksDB directory, and that a file can be written in it. Errors as OpenStore.
absl::Status PrepareDirectory(const std::string& directory);

// Whether there is a RocksDB database in it (a file CURRENT).
bool HasDatabase(const std::string& directory);

// Writes `bytes` into a file without a name, which goes at once. ResourceExhausted: there is no
// room. PermissionDenied: nothing may be written.
absl::Status ProbeWrite(const std::string& directory, uint64_t bytes);

// Returns the process that holds RocksDB's lock on the directory; 0: none, or not known. Must not
// be called while this process holds it: POSIX drops the locks of a process on a file when the
// process closes any descriptor of that file.
pid_t LockHolder(const std::string& directory);

// The folder in the directory where damaged logs are kept for people to look into.
std::string KeptLogs(const std::string& directory);
// Adds the present logs to that folder, as hard links.
absl::Status KeepLogs(const std::string& directory);
// Removes from that folder the logs that the database still has.
void DropKeptLogs(const std::string& directory);

// Sum of the file sizes.
uint64_t DirectoryBytes(const std::string& directory);

}  // namespace foreshock::store
