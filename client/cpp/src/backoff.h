// Waits between attempts to connect: doubled from `min` to `max`, each jittered, so that the ranks
// of a job do not come back all at once. Thread-compatible.
#pragma once

#include <algorithm>
#include <random>

#include "absl/time/time.h"

namespace foreshock::client_internal {

class Backoff {
 public:
  Backoff(absl::Duration min, absl::Duration max, uint64_t seed)
      : min_(min), max_(max), next_(min), random_(seed) {}

  // Between half of the present wait and all of it; the one after is twice as long.
  absl::Duration Next() {
    const absl::Duration wait = next_ * std::uniform_real_distribution<double>(0.5, 1)(random_);
    next_ = std::min(2 * next_, max_);
    return wait;
  }
  void Reset() { next_ = min_; }

 private:
  const absl::Duration min_;
  const absl::Duration max_;
  absl::Duration next_;
  std::mt19937_64 random_;
};

}  // namespace foreshock::client_internal
