// Counts the points that each run holds outside chunks, and says which run is folded next.
//
//   overfull = queue.Add({{.run = 7, .points = 500, .series = 500}}, SteadyNow());   // the writer
//   while (const std::optional<uint32_t> run = queue.WaitForDue()) Fold(*run);       // the folder
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/base/mutex.h"

namespace foreshock::store {

// Thread-safe. Times are those of SteadyNow().
class FoldQueue {
 public:
  // A head that a batch has made.
  struct NewHead {
    uint32_t run = 0;
    uint64_t points = 0;
    uint64_t series = 0;  // that the run has now
  };
  // Heads of a run that a fold removes.
  struct Heads {
    uint32_t run = 0;
    uint64_t heads = 0;
    uint64_t points = 0;
  };

  // `points_max`: of one run. `idle`: a run without new heads for so long is folded whole.
  FoldQueue(uint64_t points_max, absl::Duration idle)
      : points_max_(points_max), idle_(std::min(idle, kIdleMax)) {}

  // Forgets everything but these heads.
  void Reset(absl::Span<const NewHead> heads, absl::Time now);
  // Returns the runs of these heads that hold so many points that their writer must wait for a
  // fold.
  std::vector<uint32_t> Add(absl::Span<const NewHead> heads, absl::Time now);
  void Folded(const Heads& heads);
  void Forget(uint32_t run);
  // Leaves the run alone for a while.
  void Failed(uint32_t run, absl::Time now);

  // Returns a run that holds its share of points, or that is idle.
  std::optional<uint32_t> Due(absl::Time now) const;
  // When the next run is due if nothing is written; nullopt: there is none.
  std::optional<absl::Time> NextDue() const;
  // Waits until a run is due; nullopt: the queue was stopped. For one thread.
  std::optional<uint32_t> WaitForDue();
  void Stop();

  uint64_t points() const;  // of all runs

 private:
  struct Run {
    uint64_t heads = 0;
    uint64_t points = 0;
    uint64_t limit = 0;
    absl::Time written = absl::InfinitePast();
    absl::Time not_before = absl::InfinitePast();
  };
  static constexpr absl::Duration kIdleMax = absl::Hours(24 * 365);

  void AddLocked(const NewHead& head, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<uint32_t> DueLocked(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<absl::Time> NextDueLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time DueAt(const Run& run) const;

  const uint64_t points_max_;
  const absl::Duration idle_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::map<uint32_t, Run> runs_ ABSL_GUARDED_BY(mutex_);
  bool waits_for_a_run_ ABSL_GUARDED_BY(mutex_) = false;  // in WaitForDue, without a time limit
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace foreshock::store
