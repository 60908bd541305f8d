#include "daemon/rules/aggregate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "daemon/base/order_statistics.h"

namespace foreshock::rules {

void StepValues::Add(const Input& input, size_t component, double value) {
  if (count_ == 0) {
    sum_ = 0;
    low_ = value;
    high_ = value;
    values_.clear();
  }
  ++count_;
  sum_ += value;
  low_ = std::min(low_, value);
  high_ = std::max(high_, value);
  if (input.combine != Input::Combine::kNone) {
    values_.resize(input.indicators.size(), std::numeric_limits<double>::quiet_NaN());
    values_[component] = value;
  } else if (input.aggregate == Input::Aggregate::kP10) {
    values_.push_back(value);
  }
}

std::optional<double> StepValues::Combined(Input::Combine combine) const {
  double squares = 0;
  for (const double x : values_) {
    if (std::isnan(x)) return std::nullopt;
    squares += x * x;
  }
  switch (combine) {
    case Input::Combine::kNorm:
      return std::sqrt(squares);
    case Input::Combine::kSum:
      return sum_;
    case Input::Combine::kMean:
      return sum_ / static_cast<double>(values_.size());
    case Input::Combine::kMin:
      return low_;
    default:
      return high_;
  }
}

std::optional<double> StepValues::Value(const Input& input) {
  if (input.combine != Input::Combine::kNone) return Combined(input.combine);
  switch (input.aggregate) {
    case Input::Aggregate::kMin:
      return low_;
    case Input::Aggregate::kMax:
      return high_;
    case Input::Aggregate::kP10:
      return base::Percentile10(values_);
    case Input::Aggregate::kEach:  // one value
    case Input::Aggregate::kMean:
      return sum_ / count_;
  }
  return std::nullopt;
}

}  // namespace foreshock::rules
