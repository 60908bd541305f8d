// Where a sequence stands now, and how far its values usually lie from where it stood just before:
// its noise, wandering and trend included. A series that wanders when it is well counts as wide.
//
//   LocalLevel level;
//   const double reference = level.Reference(Side::kUp);
//   if (x - reference > level.Limit(limits, reference)) Suspect(x);
//   else level.Admit(limits.side, step, x);      // only what is well becomes part of the level
//
// The reference for a rise is the smaller of two medians, of the newest 5 and the newest 16 values,
// so that neither a descent nor its end looks like a rise. Cost: two medians of at most 16 a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/detect/change.h"
#include "daemon/detect/noise.h"

namespace foreshock::detect {

// Thread-compatible.
class LocalLevel {
 public:
  static constexpr size_t kValuesMin = 5;  // fewer have no level
  static constexpr int64_t kNoiseMin = 5;  // fewer deviations have no spread

  bool known() const { return values_.size() >= kValuesMin && noise_.count() >= kNoiseMin; }
  double Reference(Side side) const;
  // How far above (below) the reference a value is abnormal; in the unit of the values.
  double Limit(const Limits& limits, double reference) const;
  double spread() const { return noise_.Spread(); }

  void Admit(Side side, int64_t step, double value);
  // Another past: the noise stays what it was.
  void Replace(std::vector<double> values, int64_t step);
  // Values of this step and later ones are no past.
  void DropFrom(int64_t step);
  void Reset() { *this = LocalLevel(); }

  template <typename A>
  void serialize(A& archive) {
    archive(values_, steps_, noise_);
    Changed();
  }

 private:
  double MedianOfNewest(size_t count) const;
  void Changed() { reference_.reset(); }

  std::vector<double> values_;  // at most kValuesMax, the newest last
  std::vector<int64_t> steps_;  // of them
  Noise noise_;
  mutable std::optional<double> reference_;  // of reference_side_, until the values change
  mutable Side reference_side_ = Side::kUp;
};

}  // namespace foreshock::detect
