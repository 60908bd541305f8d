#include "daemon/store/retention_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace foreshock::store {
namespace {

constexpr absl::Duration kJump = absl::Hours(1);
constexpr absl::Duration kHold = absl::Hours(24);

}  // namespace

RetentionWorker::RetentionWorker(DiskStore* store, const RetentionOptions& options,
                                 const base::Clock* clock, DeleteRun delete_run)
    : store_(store),
      options_(options),
      clock_(clock),
      delete_run_(std::move(delete_run)),
      last_now_(clock->Now()),
      last_steady_(clock->Steady()) {
  if (options_.any()) thread_ = std::thread([this] { Loop(); });
}

RetentionWorker::~RetentionWorker() {
  {
    base::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void RetentionWorker::Loop() {
  for (;;) {
    {
      base::MutexLock lock(&mutex_);
      const absl::Time next = base::SteadyNow() + options_.interval;
      while (!stop_ && base::SteadyNow() < next)
        changed_.WaitFor(&mutex_, next - base::SteadyNow());
      if (stop_) return;
    }
    if (ClockIsSteady()) Pass();
  }
}

bool RetentionWorker::ClockIsSteady() {
  const absl::Time now = clock_->Now();
  const absl::Time steady = clock_->Steady();
  const absl::Duration jump = (now - last_now_) - (steady - last_steady_);
  last_now_ = now;
  last_steady_ = steady;
  if (jump > kJump || jump < -kJump) {
    hold_until_ = steady + kHold;
    base::LogWarning("store", "the clock has jumped; retention waits a day",
                     {{"by", absl::FormatDuration(jump)}});
  }
  return steady >= hold_until_;
}

void RetentionWorker::Pass() {
  const absl::StatusOr<RetentionResult> result =
      store_->Retain(options_, clock_->Now(), {.delete_run = delete_run_, .go_on = [this] {
                                                 base::MutexLock lock(&mutex_);
                                                 return !stop_;
                                               }});
  if (absl::IsAborted(result.status())) return;  // the next pass goes on
  if (!result.ok()) {
    base::LogEvery("retention", base::LogLevel::kWarning, "store",
                   "retention failed; it is tried again", {{"error", result.status().ToString()}});
    return;
  }
  if (result->over_budget) {
    base::LogEvery(
        "over budget", base::LogLevel::kWarning, "store",
        "the store is over its budget, and nothing that is left may go: pinned runs, and the "
        "newest steps of runs that have not ended",
        {{"bytes_max", absl::StrCat(options_.bytes_max)}});
  }
  if (result->chunks_downsampled + result->points_dropped + result->runs_emptied +
          result->runs_deleted ==
      0) {
    return;
  }
  base::LogInfo("store", "retention done",
                {{"points_downsampled", absl::StrCat(result->points_downsampled)},
                 {"points_dropped", absl::StrCat(result->points_dropped)},
                 {"runs_emptied", absl::StrCat(result->runs_emptied)},
                 {"runs_deleted", absl::StrCat(result->runs_deleted)}});
}

}  // namespace foreshock::store
