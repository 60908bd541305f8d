// The thread that keeps a store within its limits.
//
//   RetentionWorker worker(store, options, [&](const std::string& run) { return Delete(run); });
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/store/disk_store.h"

namespace foreshock::store {

// Makes a pass every options.interval; without limits there is no thread. The log says what it does
// and what fails. After the clock has jumped by more than an hour it drops nothing for a day: the
// ages of steps may be wrong.
class RetentionWorker {
 public:
  using DeleteRun = std::function<absl::Status(const std::string& run)>;

  // `store` and `clock` must outlive it.
  RetentionWorker(DiskStore* store, const RetentionOptions& options, const base::Clock* clock,
                  DeleteRun delete_run);
  ~RetentionWorker();  // waits for the batch under way

 private:
  void Loop();
  // Whether the clock has not jumped for a day.
  bool ClockIsSteady();
  void Pass();

  DiskStore* const store_;
  const RetentionOptions options_;
  const base::Clock* const clock_;
  const DeleteRun delete_run_;

  absl::Time last_now_;
  absl::Time last_steady_;
  absl::Time hold_until_ = absl::InfinitePast();

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace foreshock::store
