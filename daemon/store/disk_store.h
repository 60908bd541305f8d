// A store on a disk, with what an operator needs: retention, usage, verification, backups.
//
//   FORESHOCK_ASSIGN_OR_RETURN(std::unique_ptr<DiskStore> store,
//                              OpenDiskStore({.directory = path}));
//   FORESHOCK_ASSIGN_OR_RETURN(const StoreUsage usage, store->Usage());
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/store/backup.h"
#include "daemon/store/retention.h"
#include "daemon/store/store.h"
#include "daemon/store/verify.h"

namespace foreshock::store {

// How much room everything takes. Bytes of rows count keys and values as they were written. On the
// disk they may be compressed, and may be there twice until they are compacted.
struct StoreUsage {
  struct Rows {
    uint64_t rows = 0;
    uint64_t bytes = 0;
  };
  struct Family {
    std::string name{};
    Rows rows{};
    uint64_t disk_bytes = 0;    // its live files
    uint64_t memory_bytes = 0;  // rows that are in the log and in no file yet
  };
  struct Run {
    std::string name{};
    bool pinned = false;
    uint64_t series = 0;
    uint64_t attempts = 0;
    std::vector<Rows> families{};  // in the order of StoreUsage::families
    uint64_t disk_bytes = 0;       // about
    uint64_t open_steps = 0;       // closed steps that are not in chunks yet
    uint64_t open_points = 0;
    Rows raw{};  // chunks of points
    uint64_t raw_points = 0;
    Rows downsampled{};               // chunks of parts
    uint64_t downsampled_points = 0;  // that the parts are made of
    Rows steps{};                     // chunks of step rows
    uint64_t step_rows = 0;
    std::optional<int64_t> first_step{};  // of the step rows
    std::optional<int64_t> last_step{};
    int64_t oldest_unix_ns = 0;  // of the step rows; 0: not known
    int64_t newest_unix_ns = 0;
    // The greatest of its attempts. Points before it may be downsampled; unset: all are raw.
    std::optional<int64_t> raw_from{};
  };
  std::vector<Family> families{};
  std::vector<Run> runs{};
  uint64_t disk_bytes = 0;  // all files of the directory, logs too
};

// Thread-safe, as Store is.
class DiskStore : public Store {
 public:
  // The thread that calls Retain calls them.
  struct RetentionHooks {
    // Deletes a run that is empty and older than alerts_for. The caller does it, because it knows
    // which ranks are connected. After a failure the next pass tries again.
    std::function<absl::Status(const std::string& run)> delete_run{};
    std::function<bool()> go_on{};  // is called between batches; false: Aborted
  };
  // Does what retention.h decides at `now`, in small batches beside reads and writes, until nothing
  // is left to do. It may be interrupted anywhere; the next pass does the rest. One pass runs at a
  // time. Errors as Write; Aborted when `go_on` returns false or a run is deleted meanwhile.
  virtual absl::StatusOr<RetentionResult> Retain(const RetentionOptions& options, absl::Time now,
                                                 const RetentionHooks& hooks) = 0;

  // Reads all rows. DataLoss names a corrupt one; Verify says more.
  virtual absl::StatusOr<StoreUsage> Usage() const = 0;

  // Checks everything that is stored at this moment (verify.h). It goes on after a fault. It is an
  // error only if it cannot go on, or is told not to.
  virtual absl::StatusOr<VerifyResult> Verify(const VerifyCallbacks& callbacks) const = 0;

  // Copies the store as it is at this moment into `directory` (backup.h), beside writes.
  virtual absl::StatusOr<BackupInfo> Backup(const std::string& directory) const = 0;
};

// As OpenStore. With options.read_only, Retain is FailedPrecondition, and so is Backup: a daemon
// that has the store open could delete files that the backup needs.
absl::StatusOr<std::unique_ptr<DiskStore>> OpenDiskStore(const StoreOptions& options);

}  // namespace foreshock::store
