// What should only improve has become worse than its own best: means over 16, 64 and 256 rows
// against the best such mean so far. Sees what climbs too slowly for any local level, and what a
// noisy series hides from single rows.
//
//   BestSoFar best({.side = Side::kUp, .size = 0.05, .noises = 6});   // kUp: larger is worse
//   if (best.Push(step, loss).lasts) ...
//
// The noise of a mean follows from differences of neighbouring means of 1, 4, 16 and 64 rows, so a
// trend does not count as noise. The best of many
// means lies low by chance: with 6 spreads no healthy series of 10^6 independent rows is told. It
// is over when the mean is back within half of the limit. A mean is looked at four times in its own
// length. Cost: O(1) a row. Memory: under 4 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "daemon/detect/change.h"
#include "daemon/detect/noise.h"

namespace foreshock::detect {

// Thread-compatible.
class BestSoFar {
 public:
  explicit BestSoFar(const Limits& limits) : limits_(limits) {}

  // Of the shortest mean that is worse, else of the shortest mean.
  Change Push(int64_t step, double value);

  void Reset() { *this = BestSoFar(limits_); }
  // A new attempt begins at `step`: bests of later steps are forgotten.
  void Resume(int64_t step);

  template <typename A>
  void serialize(A& archive) {
    archive(rows_, newest_, means_, noises_);
  }

 private:
  // A mean over a fixed number of rows, and its history.
  struct Mean {
    double sum = 0;
    double peak = 0;     // largest excess since it was last back
    int64_t looks = 0;   // in a row that were worse
    double largest = 0;  // such peak from which it came back by half
    Change change;
    std::deque<std::pair<int64_t, double>> bests;  // step and value, improving, at most kBestsMax

    template <typename A>
    void serialize(A& archive) {
      archive(sum, peak, looks, largest, change, bests);
    }
  };

  struct Means {
    double all = 0;
    double newest = 0;  // of the newest quarter of the rows
    double spread = 0;  // of `all`
  };

  void Look(int64_t step, const Means& now, Mean* mean) const;

  Limits limits_;
  int64_t rows_ = 0;
  std::deque<double> newest_;  // the newest last, at most the longest mean's rows
  std::array<Mean, 3> means_;
  std::array<Noise, 4> noises_;  // of differences of neighbouring means of 1, 4, 16, 64 rows, each
                                 // as of one row
};

}  // namespace foreshock::detect
