// Checks that a store holds what was written into it.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const VerifyResult result, VerifyDirectory(path, callbacks));
//   if (result.findings > 0) ...
//
// It reads every file and compares it with its checksum, checks the checksum of every row and
// decodes it. It checks that rows agree with each other: the runs, attempts and series of a row are
// known, chunks do not overlap, points lie inside their windows, summaries are those of their
// points. After a fault the check goes on behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace foreshock::store {

// One thing that is wrong.
struct VerifyFinding {
  std::string family{};  // column family
  std::string file{};    // name in the directory, if a file is damaged
  std::string where{};   // names the row: "run exp-42, series train.loss, attempt 1, ..."
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
  // Is called a few times a second; returns false to stop. May be empty.
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

// Checks a directory, also one that a daemon has open, and changes nothing. A store that cannot be
// opened is a finding. NotFound: there is no store. FailedPrecondition: it has another format.
// Cancelled: `progress` returned false. Unavailable: it cannot be read.
absl::StatusOr<VerifyResult> VerifyDirectory(const std::string& directory,
                                             const VerifyCallbacks& callbacks);

class Database;

absl::StatusOr<VerifyResult> VerifyDatabase(const Database& database,
                                            const VerifyCallbacks& callbacks);

}  // namespace foreshock::store
