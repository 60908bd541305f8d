// Whether a store is what was written into it.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const VerifyResult result, VerifyDirectory(path, callbacks));
//   if (result.findings > 0) ...
//
// Every file is read and compared with the checksum of when it was written, every row with its own;
// every row is decoded; and what rows say of one another must hold: ids have their rows, attempts,
// runs and series are known, chunks do not overlap, points lie inside their windows, summaries are
// those of their points. After a fault the check goes on behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace foreshock {

// One thing that is wrong.
struct VerifyFinding {
  std::string family{};  // column family
  std::string file{};    // name in the directory, where a file is to blame
  std::string where{};   // of the row, in words: "run exp-42, series train.loss, attempt 1, ..."
  std::string what{};
};

struct VerifyProgress {
  std::string stage{};  // "files", or a column family
  uint64_t done = 0;    // bytes of files, or rows
  uint64_t total = 0;   // about
};

// Called on the thread that verifies.
struct VerifyCallbacks {
  std::function<void(const VerifyFinding&)> finding{};
  // Some times a second; false: stop. May be empty.
  std::function<bool(const VerifyProgress&)> progress{};
};

struct VerifyResult {
  uint64_t files = 0;
  uint64_t file_bytes = 0;
  uint64_t rows = 0;
  uint64_t chunks = 0;
  uint64_t points = 0;  // in chunks and open; a downsampled part counts as one
  uint64_t findings = 0;
};

// Of a directory that nobody, or a daemon, has open; nothing is changed. A store that cannot be
// opened is a finding. Errors: NotFound when there is no store, FailedPrecondition when it is of
// another format, Cancelled when `progress` said so; Unavailable when it cannot be read.
absl::StatusOr<VerifyResult> VerifyDirectory(const std::string& directory,
                                             const VerifyCallbacks& callbacks);

namespace store {

class Database;

absl::StatusOr<VerifyResult> VerifyDatabase(const Database& database,
                                            const VerifyCallbacks& callbacks);

}  // namespace store
}  // namespace foreshock
