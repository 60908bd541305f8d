// The store's one writer. Batches and deletions take turns; after a failed write the next one opens
// the database again before it writes.
//
//   Writer writer(options, env, damage.get(), &holder, &fold_queue);
//   FORESHOCK_RETURN_IF_ERROR(writer.Load());
//   FORESHOCK_ASSIGN_OR_RETURN(const std::vector<uint32_t> overfull, writer.Write(batch));
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/store/batch_writer.h"
#include "daemon/store/damage.h"
#include "daemon/store/database_holder.h"
#include "daemon/store/fold_queue.h"
#include "daemon/store/read_view.h"
#include "daemon/store/store.h"
#include "rocksdb/env.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

// Thread-safe. Errors are those of Store::Write.
//
// Folds and retention work beside the writer. They read through a view, commit here what they made
// of it, and are called off when a run is deleted in between: their batch would bring rows back.
//
//   const uint64_t deletions = writer.deletions();   // before the view is taken
//   ...
//   FORESHOCK_RETURN_IF_ERROR(writer.Commit(view.database(), &batch, deletions));
class Writer {
 public:
  struct Removed {
    uint32_t run = 0;
    uint64_t series = 0;  // that the run had
  };

  // The pointers must outlive the writer.
  Writer(const StoreOptions& options, rocksdb::Env* env, DamageWatch* damage,
         DatabaseHolder* holder, FoldQueue* fold_queue);

  // Reads the ids of runs and series, and which heads there are.
  absl::Status Load();

  // FailedPrecondition on a store that is open for reading only.
  absl::Status CheckMayWrite() const;

  // Returns the runs that hold too many points outside chunks. The caller has them folded before it
  // reports success, so that a producer cannot outrun the folds.
  absl::StatusOr<std::vector<uint32_t>> Write(const StoreBatch& batch);
  absl::Status Sync();

  // Removes all rows of a run.
  absl::StatusOr<Removed> DeleteRun(const std::string& name);
  // Removes a run's series and all rows that belong to them; its attempts, alerts and events stay.
  absl::StatusOr<Removed> EmptyRun(const std::string& name);

  // Counts the deletions since the store was opened.
  uint64_t deletions() const { return deletions_; }
  // Aborted when a run was deleted since `deletions` was read, or the store is being closed.
  // Unavailable after a failed write, until the next one succeeds.
  absl::Status CalledOff(uint64_t deletions) const;
  // Writes a batch of a fold or of retention, unless it is called off. `database` is the one of the
  // caller's view. `folded`: the heads that the batch removes, if any.
  absl::Status Commit(const Database& database, rocksdb::WriteBatch* batch, uint64_t deletions,
                      const FoldQueue::Heads& folded = {});
  // Calls off all work beside the writer, for good.
  void Close() { closed_ = true; }

  bool writable() const { return writable_ && !options_.read_only; }
  uint64_t series() const { return series_; }
  uint64_t points_written() const { return points_written_; }
  uint64_t batches_written() const { return batches_written_; }

 private:
  // Adds the removal of a run's rows to a batch; returns the number of its series.
  using AppendRemoval = absl::FunctionRef<absl::StatusOr<uint64_t>(
      const ReadView& view, uint32_t run, rocksdb::WriteBatch* rows)>;

  absl::Status LoadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the fold queue which heads there are. Heads that cannot be read are left out and logged:
  // their points are not lost, and a read of them says what is wrong.
  void LoadHeads(const ReadView& view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Opens the database again if the last write failed.
  absl::Status MakeWritable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes all or nothing. After a failure the next write opens the database again.
  absl::Status Put(const Database& database, rocksdb::WriteBatch* batch, bool sync)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the ids that were given out for a batch that is not stored.
  void TakeBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Removed> Remove(const std::string& name, AppendRemoval append)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StoreOptions options_;
  rocksdb::Env* const env_;
  DamageWatch* const damage_;
  DatabaseHolder* const holder_;
  FoldQueue* const fold_queue_;

  base::Mutex mutex_;  // held over a write; reads never take it
  BatchWriter batches_ ABSL_GUARDED_BY(mutex_);

  std::atomic<uint64_t> deletions_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> writable_{true};
  std::atomic<uint64_t> series_{0};
  std::atomic<uint64_t> points_written_{0};
  std::atomic<uint64_t> batches_written_{0};
};

}  // namespace foreshock::store
