#include "daemon/notify/retry_clock.h"

#include <algorithm>
#include <cmath>

namespace foreshock::notify {
namespace {

constexpr absl::Duration kFirst = absl::Seconds(1);
constexpr absl::Duration kLongest = absl::Minutes(5);
constexpr absl::Duration kShortest = absl::Milliseconds(100);

}  // namespace

absl::Duration Backoff(int failures, double random) {
  const absl::Duration limit = std::min(kLongest, kFirst * std::exp2(std::min(failures - 1, 20)));
  return std::max(kShortest, limit * random);
}

void RetryClock::Failed(absl::Time now, double random, absl::Duration at_least) {
  ++failures_;
  until_ = now + std::max(Backoff(failures_, random), at_least);
}

}  // namespace foreshock::notify
