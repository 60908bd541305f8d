// How long to wait before the next try. The wait is random, up to a limit that doubles with each
// failure in a row, so that many programs do not come back at the same moment.
//
//   constexpr Backoff kRetry{.first = absl::Seconds(1), .max = absl::Minutes(5)};
//   next_try = now + kRetry.Wait(failures, random());
#pragma once

#include <algorithm>
#include <cmath>

#include "absl/time/time.h"

namespace foreshock::base {

struct Backoff {
  absl::Duration first;  // the limit after one failure
  absl::Duration max;

  // Returns a wait between half of the limit and the limit. `failures`: in a row, 1 or more.
  // `random`: in [0, 1].
  absl::Duration Wait(int failures, double random) const {
    const absl::Duration limit = std::min(max, first * std::exp2(std::min(failures - 1, 30)));
    return limit * (0.5 + 0.5 * random);
  }
};

}  // namespace foreshock::base
