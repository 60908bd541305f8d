#include "daemon/detect/local_level.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace foreshock::detect {
namespace {

constexpr size_t kValuesMax = 16;

}  // namespace

double LocalLevel::MedianOfNewest(size_t count) const {
  count = std::min(count, values_.size());
  if (count == 0) return 0;
  std::array<double, kValuesMax> sorted;
  std::copy(values_.end() - static_cast<ptrdiff_t>(count), values_.end(), sorted.begin());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(count / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<ptrdiff_t>(count));
  return *middle;
}

double LocalLevel::Reference(Side side) const {
  if (reference_.has_value() && reference_side_ == side) return *reference_;
  const double wide = MedianOfNewest(kValuesMax);
  const double narrow = MedianOfNewest(kValuesMin);
  reference_ = side == Side::kUp ? std::min(wide, narrow) : std::max(wide, narrow);
  reference_side_ = side;
  return *reference_;
}

double LocalLevel::Limit(const Limits& limits, double reference) const {
  const double size = SizeOf(limits, reference);
  return std::max(size, limits.noises * noise_.Widened());
}

void LocalLevel::Admit(Side side, int64_t step, double value) {
  if (values_.size() >= kValuesMin) noise_.Add(value - Reference(side));
  Changed();
  values_.push_back(value);
  steps_.push_back(step);
  if (values_.size() > kValuesMax) {
    values_.erase(values_.begin());
    steps_.erase(steps_.begin());
  }
}

void LocalLevel::Replace(std::vector<double> values, int64_t step) {
  if (values.size() > kValuesMax) {
    values.erase(values.begin(), values.end() - static_cast<ptrdiff_t>(kValuesMax));
  }
  Changed();
  values_ = std::move(values);
  steps_.assign(values_.size(), step);
}

void LocalLevel::DropFrom(int64_t step) {
  Changed();
  while (!steps_.empty() && steps_.back() >= step) {
    steps_.pop_back();
    values_.pop_back();
  }
}

}  // namespace foreshock::detect
