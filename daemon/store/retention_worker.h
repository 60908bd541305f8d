// The thread that keeps a store within its limits.
//
//   RetentionWorker worker(store, options, [&](const std::string& run) { return Delete(run); });
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/store/disk_store.h"

namespace foreshock {

// Looks every options.interval, first after one; without limits there is no thread. What it does
// and what fails is in the log. After the clock has jumped by more than an hour nothing is let go
// for a day: its age may be wrong.
class RetentionWorker {
 public:
  using DeleteRun = std::function<absl::Status(const std::string& run)>;

  // `store` and `clock` must outlive it.
  RetentionWorker(DiskStore* store, const RetentionOptions& options, const Clock* clock,
                  DeleteRun delete_run);
  ~RetentionWorker();  // waits for the batch under way

 private:
  void Loop();
  // Whether the clock can be believed.
  bool ClockIsSteady();
  void Pass();

  DiskStore* const store_;
  const RetentionOptions options_;
  const Clock* const clock_;
  const DeleteRun delete_run_;

  absl::Time last_now_;
  std::chrono::steady_clock::time_point last_steady_;
  std::chrono::steady_clock::time_point hold_until_;

  Mutex mutex_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace foreshock
