// Is there a trend, and how steep is it? Both ask only for the order of pairs, so that outliers and
// the scale of the noise do not matter.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace foreshock::rules {

struct TrendPoint {
  int64_t step = 0;  // increasing
  double value = 0;

  template <typename A>
  void serialize(A& archive) {
    archive(step, value);
  }
};

// Mann and Kendall: how many standard deviations more pairs rise than fall, compared with values in
// random order; negative if more fall. Equal values are accounted for; 0 for fewer than two points
// or if all are equal. O(n^2) compares.
double MannKendallZ(absl::Span<const TrendPoint> points);

// The z of n distinct values of which each is above the one before: no z is larger.
double LargestMannKendallZ(int n);

// Theil and Sen: the median of the slopes of all pairs, per step. At least two points; O(n^2) time
// and memory.
double TheilSenSlope(absl::Span<const TrendPoint> points);

}  // namespace foreshock::rules
