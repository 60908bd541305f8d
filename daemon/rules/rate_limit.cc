#include "daemon/rules/rate_limit.h"

#include <algorithm>

namespace foreshock::rules {

void RateLimit::Start(const RateLimitSpec& spec, int64_t step) {
  clear_since_.reset();
  if (spec.starts == 0) return;
  starts_.push_back(step);
  const size_t most = static_cast<size_t>(spec.starts);
  if (starts_.size() > most) starts_.pop_front();
  // After a resume a start may lie ahead: it is inside any window.
  flapping_ = starts_.size() == most && step - starts_.front() < spec.steps;
}

void RateLimit::TakeBack() {
  if (!starts_.empty()) starts_.pop_back();
  flapping_ = false;
  clear_since_.reset();
}

bool RateLimit::Holds(const RateLimitSpec& spec, int64_t step) {
  if (!flapping_) return false;
  if (!clear_since_.has_value()) clear_since_ = step;
  if (step - *clear_since_ < spec.steps) return true;
  flapping_ = false;
  return false;
}

void RateLimit::Resume(int64_t step) {
  if (clear_since_.has_value()) clear_since_ = std::min(*clear_since_, step);
}

}  // namespace foreshock::rules
