// A value that no longer changes, bit for bit, although it did: a logger that repeats itself, a
// loss that no batch moves, a gradient that has become exactly 0.
//
//   Frozen frozen(30);
//   if (frozen.Push(step, loss).lasts) ...
#pragma once

#include <cstdint>

#include "daemon/detect/change.h"

namespace foreshock::detect {

// Thread-compatible.
class Frozen {
 public:
  // So many equal rows in a row are abnormal, after as many rows of which most differed from the
  // one before.
  explicit Frozen(int64_t rows) : rows_(rows) {}

  Change Push(int64_t step, double value);

  void Reset() { *this = Frozen(rows_); }
  void Resume(int64_t) { equal_ = 1; }

  template <typename Archive>
  void Fields(Archive* archive) {
    archive->Take(&newest_, &last_change_step_, &seen_, &changed_, &equal_);
  }

 private:
  int64_t rows_;
  double newest_ = 0;
  int64_t last_change_step_ = 0;
  int64_t seen_ = 0;
  int64_t changed_ = 0;  // of them, from the one before
  int64_t equal_ = 0;    // in a row, the newest included
};

}  // namespace foreshock::detect
