#include "daemon/detect/frozen.h"

namespace foreshock::detect {

Change Frozen::Push(int64_t step, double value) {
  const bool same = seen_ > 0 && value == newest_;
  ++seen_;
  if (same) {
    ++equal_;
  } else {
    ++changed_;
    equal_ = 1;
    last_change_step_ = step;
  }
  newest_ = value;
  const int64_t earlier = seen_ - equal_;
  const bool varied = earlier >= rows_ && 2 * changed_ > earlier;
  return {.known = earlier >= rows_,
          .lasts = varied && equal_ >= rows_,
          .before_step = last_change_step_,
          .before = value,
          .now = value};
}

}  // namespace foreshock::detect
