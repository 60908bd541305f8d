#include "daemon/notify/token_bucket.h"

#include <algorithm>

namespace foreshock::notify {

bool TokenBucket::Take(absl::Time now) {
  if (per_hour_ == 0) return true;
  if (at_ != absl::InfinitePast()) {
    tokens_ = std::min(per_hour_, tokens_ + per_hour_ * absl::ToDoubleHours(now - at_));
  }
  at_ = now;
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

absl::Time TokenBucket::next() const {
  return at_ + absl::Hours((1 - tokens_) / per_hour_) + absl::Milliseconds(1);
}

}  // namespace foreshock::notify
