#include "daemon/detect/frozen.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace foreshock::detect {
namespace {

constexpr size_t kOthers = 16;
constexpr double kNear = 0.25;
constexpr double kOfTheFirst = 0.05;
constexpr int64_t kRareOf = 20;

}  // namespace

Change Frozen::Push(int64_t step, double value) {
  const bool same = seen_ > 0 && value == newest_;
  ++seen_;
  if (same) {
    ++equal_;
  } else {
    if (at_.has_value() && newest_ == *at_) at_before_ += equal_;
    ++changed_;
    equal_ = 1;
    last_change_step_ = step;
  }
  newest_ = value;
  if (at_.has_value() && value != *at_) {
    others_.push_back(std::abs(value - *at_));
    if (others_.size() > kOthers) others_.pop_front();
    if (firsts_ < static_cast<int64_t>(kOthers)) {
      first_ += others_.back();
      ++firsts_;
    }
  }
  lasts_ = lasts_ ? same : Abnormal();
  return {.known = seen_ - equal_ >= rows_,
          .lasts = lasts_,
          .before_step = last_change_step_ - (at_.has_value() ? 1 : 0),
          .before = value,
          .now = value};
}

bool Frozen::Abnormal() const {
  const int64_t earlier = seen_ - equal_;
  if (equal_ < rows_ || earlier < rows_ || 2 * changed_ <= earlier) return false;
  if (!at_.has_value()) return true;
  return newest_ == *at_ && kRareOf * at_before_ <= earlier && CameAtOnce();
}

bool Frozen::CameAtOnce() const {
  std::vector<double> sorted(others_.begin(), others_.end());
  if (sorted.empty()) return false;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  return sorted.front() >= kNear * median &&
         median >= kOfTheFirst * first_ / static_cast<double>(firsts_);
}

}  // namespace foreshock::detect
