#include "daemon/detect/spike.h"

#include <cmath>

namespace foreshock::detect {
namespace {

constexpr size_t kRowsMax = 16;

}  // namespace

Change Spike::Push(int64_t step, double value) {
  if (limits_.logarithm) value = std::log(value);
  if (!std::isfinite(value)) return change_;
  const double sign = static_cast<double>(limits_.side);
  const double reference = level_.Reference(limits_.side);
  const double limit = level_.Limit(limits_, reference);
  const bool was = change_.lasts;
  const int64_t before_step = change_.before_step;
  change_ = {.known = level_.known(),
             .lasts = level_.known() && sign * (value - reference) > limit,
             .before_step = was ? before_step : step - 1,
             .before = reference,
             .now = value,
             .limit = reference + sign * limit,
             .noise = level_.spread()};
  if (change_.lasts) {
    beyond_.push_back(value);
    if (beyond_.size() >= kRowsMax) {
      level_.Replace(beyond_, step);
      beyond_.clear();
      change_.lasts = false;
    }
  } else {
    beyond_.clear();
    level_.Admit(limits_.side, step, value);
  }
  Change shown = change_;
  if (limits_.logarithm) {
    shown.before = std::exp(shown.before);
    shown.now = std::exp(shown.now);
    shown.limit = std::exp(shown.limit);
  }
  return shown;
}

void Spike::Resume(int64_t step) {
  level_.DropFrom(step);
  beyond_.clear();
  change_.lasts = false;
}

}  // namespace foreshock::detect
