#include "daemon/detect/drift.h"

#include <algorithm>
#include <cmath>

namespace foreshock::detect {
namespace {

// A rise lies between the means of the two values at either end of ten.
constexpr size_t kValues = 10;
constexpr size_t kOverlap = 8;
constexpr int64_t kValuesMin = 18;

}  // namespace

double Drift::Size(double before) const { return SizeOf(limits_, before); }

Change Drift::Push(int64_t step, double value) {
  if (limits_.logarithm) value = std::log(value);
  if (std::isfinite(value)) {
    ladder_.Push(step, value, [this](int scale, const Rung& rung) {
      if (scale < kFinest || scale > kCoarsest) return;
      PushScale(rung, &scales_[static_cast<size_t>(scale - kFinest)]);
    });
  }
  Change change = scales_.front().change;
  for (const Scale& scale : scales_) {
    if (!scale.change.lasts) continue;
    change = scale.change;
    break;
  }
  if (limits_.logarithm) {
    change.before = std::exp(change.before);
    change.now = std::exp(change.now);
    change.limit = std::exp(change.limit);
  }
  return change;
}

void Drift::PushScale(const Rung& rung, Scale* scale) const {
  const double sign = static_cast<double>(limits_.side);
  Change& change = scale->change;
  std::deque<Rung>& newest = scale->newest;
  newest.push_back(rung);
  if (newest.size() > kValues) newest.pop_front();
  ++scale->count;
  change.now = rung.value;
  if (change.lasts) {
    change.lasts = sign * (rung.value - change.before) >= kHealed * Size(change.before);
    if (!change.lasts) newest.clear();
    return;
  }
  if (newest.size() < kValues) return;
  const double first = sign * newest[0].value, second = sign * newest[1].value;
  const double last = sign * newest[kValues - 1].value,
               one_before = sign * newest[kValues - 2].value;
  const double then = std::max(first, second);
  const double rise = std::min(last, one_before) - then;  // by all four values
  change.before = sign * then;
  change.before_step = newest[1].last_step;
  scale->rises.push_back((last + one_before - first - second) / 2);
  if (scale->rises.size() > kOverlap) {
    scale->largest = std::max(scale->largest, scale->rises.front());
    scale->rises.pop_front();
  }
  const double limit = std::max(Size(change.before), kUnlikeThePast * scale->largest);
  change.limit = change.before + sign * limit;
  change.known = scale->count >= kValuesMin;
  change.lasts = change.known && rise > limit;
}

void Drift::Resume(int64_t step) {
  ladder_.Reset();
  for (Scale& scale : scales_) {
    while (!scale.newest.empty() && scale.newest.back().last_step >= step) scale.newest.pop_back();
    if (scale.change.before_step >= step) scale.change.lasts = false;
  }
}

}  // namespace foreshock::detect
