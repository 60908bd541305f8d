#include "daemon/store/fold_queue.h"

#include <algorithm>

#include "daemon/base/clock.h"

namespace foreshock::store {
namespace {

// A run is folded when it holds so many points, or so many steps if it has many series. Earlier
// folds would rewrite its chunks too often.
constexpr uint64_t kPointsMin = 256u << 10;
constexpr uint64_t kStepsMin = 64;
constexpr uint64_t kOverfull = 4;  // times the limit
constexpr absl::Duration kAfterFailure = absl::Seconds(10);

}  // namespace

void FoldQueue::AddLocked(const NewHead& head, absl::Time now) {
  Run& run = runs_[head.run];
  ++run.heads;
  run.points += head.points;
  run.limit = std::min(points_max_, std::max(kPointsMin, kStepsMin * head.series));
  run.written = now;
}

void FoldQueue::Reset(absl::Span<const NewHead> heads, absl::Time now) {
  base::MutexLock lock(&mutex_);
  runs_.clear();
  for (const NewHead& head : heads) AddLocked(head, now);
  changed_.NotifyAll();
}

std::vector<uint32_t> FoldQueue::Add(absl::Span<const NewHead> heads, absl::Time now) {
  base::MutexLock lock(&mutex_);
  for (const NewHead& head : heads) AddLocked(head, now);
  std::vector<uint32_t> overfull;
  for (const NewHead& head : heads) {
    const Run& run = runs_[head.run];
    if (run.points < kOverfull * run.limit || run.not_before > now) continue;
    if (std::find(overfull.begin(), overfull.end(), head.run) == overfull.end()) {
      overfull.push_back(head.run);
    }
  }
  // The folder sleeps until the next run is due, or without a limit if there was none.
  if (waits_for_a_run_ || DueLocked(now).has_value()) changed_.NotifyAll();
  return overfull;
}

void FoldQueue::Folded(const Heads& heads) {
  base::MutexLock lock(&mutex_);
  const auto found = runs_.find(heads.run);
  if (found == runs_.end()) return;
  Run& run = found->second;
  run.heads -= std::min(run.heads, heads.heads);
  run.points -= std::min(run.points, heads.points);
  run.not_before = absl::InfinitePast();
  if (run.heads == 0) runs_.erase(found);
}

void FoldQueue::Forget(uint32_t run) {
  base::MutexLock lock(&mutex_);
  runs_.erase(run);
}

void FoldQueue::Failed(uint32_t run, absl::Time now) {
  base::MutexLock lock(&mutex_);
  const auto found = runs_.find(run);
  if (found != runs_.end()) found->second.not_before = now + kAfterFailure;
}

absl::Time FoldQueue::DueAt(const Run& run) const {
  const absl::Time full_or_idle = run.points >= run.limit ? run.written : run.written + idle_;
  return std::max(full_or_idle, run.not_before);
}

std::optional<uint32_t> FoldQueue::DueLocked(absl::Time now) const {
  for (const auto& [id, run] : runs_) {
    if (DueAt(run) <= now) return id;
  }
  return std::nullopt;
}

std::optional<absl::Time> FoldQueue::NextDueLocked() const {
  std::optional<absl::Time> next;
  for (const auto& [id, run] : runs_) {
    next = std::min(next.value_or(absl::InfiniteFuture()), DueAt(run));
  }
  return next;
}

std::optional<uint32_t> FoldQueue::Due(absl::Time now) const {
  base::MutexLock lock(&mutex_);
  return DueLocked(now);
}

std::optional<absl::Time> FoldQueue::NextDue() const {
  base::MutexLock lock(&mutex_);
  return NextDueLocked();
}

std::optional<uint32_t> FoldQueue::WaitForDue() {
  base::MutexLock lock(&mutex_);
  while (!stopped_) {
    const absl::Time now = base::SteadyNow();
    if (const std::optional<uint32_t> run = DueLocked(now); run.has_value()) return run;
    const std::optional<absl::Time> next = NextDueLocked();
    if (next.has_value()) {
      changed_.WaitFor(&mutex_, *next - now);
    } else {
      waits_for_a_run_ = true;
      changed_.Wait(&mutex_);
      waits_for_a_run_ = false;
    }
  }
  return std::nullopt;
}

void FoldQueue::Stop() {
  base::MutexLock lock(&mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

uint64_t FoldQueue::points() const {
  base::MutexLock lock(&mutex_);
  uint64_t points = 0;
  for (const auto& [id, run] : runs_) points += run.points;
  return points;
}

}  // namespace foreshock::store
