// A jump of one sequence that stays: up or down from where it stood just before.
//
// Rows beyond the limit of the local level add up, each by its distance in limits (at most 2). From
// a sum of 4 on, and three rows at least, the jump is told: after three rows if it is large, after
// four if it is at the limit. A jump that falls back below two fifths of its peak is healing and is
// told only when it has lasted eight rows. While it lasts the level before it is frozen; it is over
// when the median of three rows is back within 0.7 of the limit.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/detect/change.h"
#include "daemon/detect/ladder.h"
#include "daemon/detect/local_level.h"

namespace foreshock::detect {

// Thread-compatible.
class Shift {
 public:
  void Push(const Limits& limits, const Rung& rung);

  // In the unit of the values that were pushed.
  const Change& change() const { return change_; }
  // From the first row beyond the limit on, told or not.
  bool suspected() const { return change_.lasts || !suspects_.empty(); }

  // Another regime: all is forgotten.
  void Reset() { *this = Shift(); }
  // A new attempt begins at `step`: later steps are no past, a jump that began in them is none.
  void Resume(int64_t step);

  template <typename A>
  void serialize(A& archive) {
    archive(level_, suspects_, newest_, change_, sum_, peak_, last_step_);
  }

 private:
  void Suspect(const Limits& limits, const Rung& rung, double excess, double limit);
  void EndIfHealed(const Limits& limits, int64_t step);

  LocalLevel level_;
  std::vector<Rung> suspects_;  // beyond the limit, not told yet; fewer than 8
  std::vector<double> newest_;  // whatever they are, at most 16
  Change change_;
  double sum_ = 0;         // of the suspects' distances in limits
  double peak_ = 0;        // largest excess of them
  int64_t last_step_ = 0;  // of the newest row that is part of the level
};

}  // namespace foreshock::detect
