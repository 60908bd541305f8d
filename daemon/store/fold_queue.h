// Which run is folded next: how many points each one holds outside chunks, since when nothing was
// added, and whether folding it has just failed. Time comes in as an argument. Thread-compatible.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"

namespace foreshock::store {

class FoldQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  FoldQueue(uint64_t points_max, absl::Duration idle)
      : points_max_(points_max), idle_(absl::ToChronoNanoseconds(std::min(idle, kIdleMax))) {}

  void Clear() { runs_.clear(); }
  void Forget(uint32_t run) { runs_.erase(run); }
  // A head with so many points is there; the run has so many series now.
  void Added(uint32_t run, uint64_t points, uint64_t series, Time now);
  void Folded(uint32_t run, uint64_t heads, uint64_t points);
  // Leaves the run alone for a while.
  void Failed(uint32_t run, Time now);

  // A run to fold: one with its share of open points, or one that is idle.
  std::optional<uint32_t> Due(Time now) const;
  // When Due is to be asked again if nothing is written; nothing to wait for: unset.
  std::optional<Time> NextDue() const;
  // The run holds so much that its writer must wait.
  bool Overfull(uint32_t run, Time now) const;

  uint64_t points() const;

 private:
  struct Run {
    uint64_t heads = 0;
    uint64_t points = 0;
    uint64_t limit = 0;
    Time written{};
    Time not_before{};
  };
  static constexpr absl::Duration kIdleMax = absl::Hours(24 * 365);
  Time DueAt(const Run& run) const;

  const uint64_t points_max_;
  const std::chrono::nanoseconds idle_;
  std::map<uint32_t, Run> runs_;
};

}  // namespace foreshock::store
