#include "daemon/detect/shift.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace foreshock::detect {
namespace {

constexpr size_t kNewestMax = 16;
constexpr double kRowMax = 2;  // distance of a row in limits, as far as it counts
constexpr double kSumToTell = 4;
constexpr size_t kRowsToTell = 3;
constexpr size_t kRowsWhileHealing = 8;
constexpr double kHealing = 0.4;      // of the peak
constexpr double kShiftHealed = 0.7;  // of the limit

double MedianOfThree(const std::vector<double>& values) {
  std::array<double, 3> last;
  std::copy(values.end() - 3, values.end(), last.begin());
  std::sort(last.begin(), last.end());
  return last[1];
}

}  // namespace

void Shift::Push(const Limits& limits, const Rung& rung) {
  newest_.push_back(rung.value);
  if (newest_.size() > kNewestMax) newest_.erase(newest_.begin());
  change_.now = rung.value;
  if (change_.lasts) {
    EndIfHealed(limits, rung.last_step);
    return;
  }
  const double sign = static_cast<double>(limits.side);
  const double reference = suspects_.empty() ? level_.Reference(limits.side) : change_.before;
  const double limit = level_.Limit(limits, reference);
  change_.before = reference;
  change_.limit = reference + sign * limit;
  change_.noise = level_.spread();
  change_.known = level_.known();
  const double excess = sign * (rung.value - reference);
  if (change_.known && excess > limit) {
    Suspect(limits, rung, excess, limit);
    return;
  }
  // What did not last was noise.
  for (const Rung& suspect : suspects_) level_.Admit(limits.side, suspect.last_step, suspect.value);
  suspects_.clear();
  level_.Admit(limits.side, rung.last_step, rung.value);
  last_step_ = rung.last_step;
}

void Shift::Suspect(const Limits& limits, const Rung& rung, double excess, double limit) {
  if (suspects_.empty()) {
    change_.before_step = std::min(last_step_, rung.first_step - 1);
    sum_ = 0;
    peak_ = 0;
  }
  suspects_.push_back(rung);
  sum_ += std::min(excess / limit, kRowMax);
  peak_ = std::max(peak_, excess);
  if (sum_ < kSumToTell || suspects_.size() < kRowsToTell) return;
  double lowest = excess;
  for (size_t i = suspects_.size() - kRowsToTell; i < suspects_.size(); ++i) {
    lowest =
        std::min(lowest, static_cast<double>(limits.side) * (suspects_[i].value - change_.before));
  }
  if (lowest < kHealing * peak_ && suspects_.size() < kRowsWhileHealing) return;
  change_.lasts = true;
  suspects_.clear();
}

void Shift::EndIfHealed(const Limits& limits, int64_t step) {
  const double sign = static_cast<double>(limits.side);
  const double limit = std::abs(change_.limit - change_.before);
  if (newest_.size() < 3 ||
      sign * (MedianOfThree(newest_) - change_.before) >= kShiftHealed * limit) {
    return;
  }
  change_.lasts = false;
  level_.Replace(newest_, step);
  last_step_ = step;
}

void Shift::Resume(int64_t step) {
  level_.DropFrom(step);
  suspects_.clear();
  newest_.clear();
  last_step_ = std::min(last_step_, step - 1);
  if (change_.before_step >= step) change_.lasts = false;
}

}  // namespace foreshock::detect
