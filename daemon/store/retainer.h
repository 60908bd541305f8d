// Keeps a store within its limits: reads the facts, does what retention.h decides, reads them
// again.
//
//   Retainer retainer(&holder, &writer, &folder);
//   FORESHOCK_ASSIGN_OR_RETURN(const RetentionResult result, retainer.Retain(options, now, hooks));
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/store/database_holder.h"
#include "daemon/store/disk_store.h"
#include "daemon/store/folder.h"
#include "daemon/store/retention.h"
#include "daemon/store/writer.h"

namespace foreshock::store {

// Thread-safe; passes take turns.
//
// A crash loses nothing. A row per attempt first says from where on points are raw; then chunks are
// replaced batch by batch; then the row says that this is done. A pass that ended in between is
// repeated from where the row says, and replacing a chunk twice changes nothing.
class Retainer {
 public:
  // The pointers must outlive the retainer.
  Retainer(const DatabaseHolder* holder, Writer* writer, Folder* folder)
      : holder_(holder), writer_(writer), folder_(folder) {}

  // As DiskStore::Retain.
  absl::StatusOr<RetentionResult> Retain(const RetentionOptions& options, absl::Time now,
                                         const DiskStore::RetentionHooks& hooks);

  // Since the store was opened, failed passes included.
  uint64_t points_downsampled() const { return points_downsampled_; }
  uint64_t points_dropped() const { return points_dropped_; }
  uint64_t runs_dropped() const { return runs_dropped_; }

 private:
  const DatabaseHolder* const holder_;
  Writer* const writer_;
  Folder* const folder_;
  base::Mutex mutex_;  // held over a pass; taken before the folder's and the writer's
  // By run: bytes of rows that were replaced since the run's space was last given back.
  absl::flat_hash_map<uint32_t, uint64_t> replaced_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> points_downsampled_{0};
  std::atomic<uint64_t> points_dropped_{0};
  std::atomic<uint64_t> runs_dropped_{0};
};

}  // namespace foreshock::store
