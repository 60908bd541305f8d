#include "daemon/store/fold_queue.h"

#include <algorithm>

namespace foreshock::store {
namespace {

// A run is folded at so many points, or at so many steps of a run of many series: fewer would
// rewrite its chunks too often.
constexpr uint64_t kPointsMin = 256u << 10;
constexpr uint64_t kStepsMin = 64;
constexpr uint64_t kOverfull = 4;  // times the limit
constexpr auto kAfterFailure = std::chrono::seconds(10);

}  // namespace

void FoldQueue::Added(uint32_t run, uint64_t points, uint64_t series, Time now) {
  Run& entry = runs_[run];
  ++entry.heads;
  entry.points += points;
  entry.limit = std::min(points_max_, std::max(kPointsMin, kStepsMin * series));
  entry.written = now;
}

void FoldQueue::Folded(uint32_t run, uint64_t heads, uint64_t points) {
  const auto found = runs_.find(run);
  if (found == runs_.end()) return;
  Run& entry = found->second;
  entry.heads -= std::min(entry.heads, heads);
  entry.points -= std::min(entry.points, points);
  entry.not_before = {};
  if (entry.heads == 0) runs_.erase(found);
}

void FoldQueue::Failed(uint32_t run, Time now) {
  const auto found = runs_.find(run);
  if (found != runs_.end()) found->second.not_before = now + kAfterFailure;
}

FoldQueue::Time FoldQueue::DueAt(const Run& run) const {
  const Time idle = run.written + idle_;
  return std::max(run.points >= run.limit ? run.written : idle, run.not_before);
}

std::optional<uint32_t> FoldQueue::Due(Time now) const {
  for (const auto& [id, run] : runs_) {
    if (DueAt(run) <= now) return id;
  }
  return std::nullopt;
}

std::optional<FoldQueue::Time> FoldQueue::NextDue() const {
  std::optional<Time> next;
  for (const auto& [id, run] : runs_) next = std::min(next.value_or(Time::max()), DueAt(run));
  return next;
}

bool FoldQueue::Overfull(uint32_t run, Time now) const {
  const auto found = runs_.find(run);
  return found != runs_.end() && found->second.points >= kOverfull * found->second.limit &&
         found->second.not_before <= now;
}

uint64_t FoldQueue::points() const {
  uint64_t points = 0;
  for (const auto& [id, run] : runs_) points += run.points;
  return points;
}

}  // namespace foreshock::store
