// Where the loss of a run broke: the moment at which a person watching the loss alone would have
// known. Lead times of alerts are measured against it.
//
//   std::vector<LossSample> losses = {{0, 5.2}, {1, 5.1}, ...};
//   if (std::optional<int64_t> step = LossBreakStep(losses)) Show(*step - first_warning_step);
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace foreshock::rules {

struct LossSample {
  int64_t step = 0;
  double loss = 0;  // NaN or Inf where the loss was not finite
};

// The first step at which the exponential average (weight 0.96 on the past) of the loss exceeds
// 1.2 times the best slower average (0.98) so far, provided it never falls back below 1.1 times the
// best; or the first non-finite loss of which most of what follows (more than half, itself
// included) is non-finite; the earlier of the two. Unset: it never broke.
//
// `losses`: one sample a step, in step order, of one lineage. Non-finite samples are left out of
// the averages, which start at the first finite loss. Losses are taken to be positive: with a best
// average <= 0 a factor means nothing and only the non-finite part is judged.
// Cost: O(n), no allocation. Pure; any thread.
std::optional<int64_t> LossBreakStep(absl::Span<const LossSample> losses);

}  // namespace foreshock::rules
