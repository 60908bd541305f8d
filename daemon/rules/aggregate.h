// The values of one step that a rule makes one value of: those of the units of a layer, or those
// of the indicators that are combined.
//
//   StepValues values;
//   values.Add(input, /*component=*/0, 0.5);
//   const std::optional<double> value = values.Value(input);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/rules/input.h"

namespace foreshock::rules {

// Thread-compatible. The input must be the same in every call.
class StepValues {
 public:
  bool empty() const { return count_ == 0; }
  // `component`: the place of its indicator among those of the input.
  void Add(const Input& input, size_t component, double value);
  // nullopt: an indicator that is to be combined has no value. May reorder what was added.
  std::optional<double> Value(const Input& input);
  void Clear() { count_ = 0; }

 private:
  std::optional<double> Combined(Input::Combine combine) const;

  uint32_t count_ = 0;
  double sum_ = 0;
  double low_ = 0;
  double high_ = 0;
  std::vector<double> values_;  // for p10 and combine
};

}  // namespace foreshock::rules
