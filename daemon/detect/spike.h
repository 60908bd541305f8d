// A single row far from where the series stood just before. It does not enter the level, and it is
// over at the first row that is back.
//
//   Spike spike({.side = Side::kUp, .logarithm = true, .size = 1, .noises = 8});
//   if (spike.Push(step, grad_norm).lasts) ...
//
// What stays beyond the limit for sixteen rows is no spike: its level becomes the new one, and the
// detectors of levels tell it. Cost: about 0.35 µs a row.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/detect/change.h"
#include "daemon/detect/local_level.h"

namespace foreshock::detect {

// Thread-compatible.
class Spike {
 public:
  explicit Spike(const Limits& limits) : limits_(limits) {}

  Change Push(int64_t step, double value);

  void Reset() { *this = Spike(limits_); }
  void Resume(int64_t step);

  template <typename A>
  void serialize(A& archive) {
    archive(level_, beyond_, change_);
  }

 private:
  Limits limits_;
  LocalLevel level_;
  std::vector<double> beyond_;  // rows in a row, at most 16
  Change change_;
};

}  // namespace foreshock::detect
