#include "daemon/detect/level.h"

#include <cmath>

namespace foreshock::detect {

Change Level::Push(int64_t step, double value) {
  if (limits_.logarithm) value = std::log(value);
  if (std::isfinite(value)) {
    ladder_.Push(step, value, [this](int scale, const Rung& rung) {
      scales_[static_cast<size_t>(scale)].Push(limits_, rung);
    });
  }
  Change change = scales_[0].change();
  for (const Shift& shift : scales_) {
    if (!shift.change().lasts) continue;
    change = shift.change();
    change.now = scales_[0].change().now;
    break;
  }
  if (limits_.logarithm) {
    change.before = std::exp(change.before);
    change.now = std::exp(change.now);
    change.limit = std::exp(change.limit);
  }
  return change;
}

void Level::Reset() {
  ladder_.Reset();
  for (Shift& shift : scales_) shift.Reset();
}

void Level::Resume(int64_t step) {
  ladder_.Reset();
  for (Shift& shift : scales_) shift.Resume(step);
}

}  // namespace foreshock::detect
