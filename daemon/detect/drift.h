// A rise (fall) over eight values of a scale that has no like in the past of the series: it matters
// in size, and is half as large again as any earlier one. A series that has always grown does not
// drift; one that stood still and begins to grow does.
//
//   Drift drift({.side = Side::kUp, .logarithm = true, .size = 1});   // doubles
//   if (drift.Push(step, grad_norm).lasts) ...
//
// Looks at scales of 4, 16, 64 and 256 rows a value; at each after 18 values. It is over when the
// value is back within half of the size. Cost: O(1) a row. Memory: under 3 KiB.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "daemon/detect/change.h"
#include "daemon/detect/ladder.h"

namespace foreshock::detect {

// Thread-compatible.
class Drift {
 public:
  // `noises` is not used: what the past has shown takes its place.
  explicit Drift(const Limits& limits) : limits_(limits) {}

  // Of the finest scale that drifts, else of the finest scale.
  Change Push(int64_t step, double value);

  void Reset() { *this = Drift(limits_); }
  void Resume(int64_t step);

  template <typename A>
  void serialize(A& archive) {
    archive(ladder_, scales_);
  }

 private:
  static constexpr int kFinest = 1;
  static constexpr int kCoarsest = 4;

  struct Scale {
    std::deque<Rung> newest;   // the newest last
    std::deque<double> rises;  // not in `largest` yet: their values overlap with the newest ones
    double largest = 0;
    int64_t count = 0;
    Change change;

    template <typename A>
    void serialize(A& archive) {
      archive(newest, rises, largest, count, change);
    }
  };

  void PushScale(const Rung& rung, Scale* scale) const;
  double Size(double before) const;

  Limits limits_;
  Ladder ladder_;
  std::array<Scale, kCoarsest - kFinest + 1> scales_;
};

}  // namespace foreshock::detect
