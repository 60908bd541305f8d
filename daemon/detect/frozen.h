// A value that no longer changes, bit for bit, although it did: a logger that repeats itself, a
// loss that no batch moves.
//
//   Frozen frozen(30);
//   if (frozen.Push(step, loss).lasts) ...
//
// Or a series that has become exactly one value, such as a loss of 0, at once and not by and by:
//
//   Frozen zero(10, 0.0);
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "daemon/detect/change.h"

namespace foreshock::detect {

// Thread-compatible.
class Frozen {
 public:
  // So many equal rows in a row are abnormal, after as many rows of which most differed from the
  // one before. With `at` they must have that value, which at most a twentieth of the rows before
  // had, and the sixteen rows before them must have kept clear of it: none nearer than a quarter of
  // the median distance.
  explicit Frozen(int64_t rows, std::optional<double> at = std::nullopt) : rows_(rows), at_(at) {}

  Change Push(int64_t step, double value);

  void Reset() { *this = Frozen(rows_, at_); }
  void Resume(int64_t) { equal_ = 1; }

  template <typename A>
  void serialize(A& archive) {
    archive(newest_, last_change_step_, seen_, changed_, at_before_, equal_, others_, first_,
            firsts_, lasts_);
  }

 private:
  bool Abnormal() const;
  bool CameAtOnce() const;

  int64_t rows_;
  std::optional<double> at_;
  double newest_ = 0;
  int64_t last_change_step_ = 0;
  int64_t seen_ = 0;
  int64_t changed_ = 0;        // of them, from the one before
  int64_t at_before_ = 0;      // of them, before the newest equal ones, at `at`
  int64_t equal_ = 0;          // in a row, the newest included
  std::deque<double> others_;  // the newest distances from `at` that were not 0
  double first_ = 0;           // sum of the first such distances
  int64_t firsts_ = 0;
  bool lasts_ = false;
};

}  // namespace foreshock::detect
