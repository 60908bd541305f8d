// Puts closed steps into chunks: on its own thread when the fold queue says so, or when told to.
//
//   Folder folder(&holder, &writer, &fold_queue, options.open_points);
//   folder.Start();
//   FORESHOCK_RETURN_IF_ERROR(folder.Fold(run));
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"
#include "daemon/store/database_holder.h"
#include "daemon/store/fold_queue.h"
#include "daemon/store/writer.h"

namespace foreshock::store {

// Thread-safe.
class Folder {
 public:
  // The pointers must outlive the folder. One fold takes about `points_max` points at most.
  Folder(const DatabaseHolder* holder, Writer* writer, FoldQueue* queue, uint64_t points_max);
  ~Folder();  // closes the writer's side work and waits for the fold under way

  // Begins to fold what the queue says is due.
  void Start();

  // Folds everything that the run holds now. Aborted if a run is deleted meanwhile; else as
  // Store::Write.
  absl::Status Fold(uint32_t run);
  // The same by the store's own decision: a failure is logged and counted, and the run is left
  // alone for a while.
  void FoldOrLog(uint32_t run);
  // Waits for the fold under way, which keeps the rows of a deleted run in its view.
  void WaitForFold() { base::MutexLock lock(&chunks_mutex_); }

  // Whoever writes chunks holds it, from reading them until the commit. It is taken before the
  // writer's mutex, and never by a read.
  base::Mutex* chunks_mutex() ABSL_LOCK_RETURNED(chunks_mutex_) { return &chunks_mutex_; }

  uint64_t points_folded() const { return points_folded_; }
  uint64_t failures() const { return failures_; }

 private:
  // Folds at most points_max_ points; false: nothing is left to fold.
  absl::StatusOr<bool> FoldOnce(uint32_t run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunks_mutex_);

  const DatabaseHolder* const holder_;
  Writer* const writer_;
  FoldQueue* const queue_;
  const uint64_t points_max_;
  base::Mutex chunks_mutex_;
  std::atomic<uint64_t> points_folded_{0};
  std::atomic<uint64_t> failures_{0};
  std::thread thread_;
};

}  // namespace foreshock::store
