#include "daemon/merge/step_gate.h"

#include <algorithm>
#include <limits>

namespace foreshock::merge {

// How far apart the closed steps are, on average; 1 or more.
int64_t StepGate::stride() const {
  if (closed_ < 2) return 1;
  return std::max<int64_t>(1, (last_closed_ - *first_closed_) / (closed_ - 1));
}

int64_t StepGate::reach() const {
  const int64_t from = std::max(at_, expected_);
  const int64_t room = std::numeric_limits<int64_t>::max() - from;
  return options_.ahead_max > room / stride() ? std::numeric_limits<int64_t>::max()
                                              : from + options_.ahead_max * stride();
}

bool StepGate::Admit(uint32_t rank, int64_t step, size_t live_ranks) {
  if (!begun_) {
    begun_ = true;
    assumed_ = true;
    at_ = step;
  }
  if (step <= reach()) {
    Forget(rank);
    return true;
  }
  const auto known = claims_.find(rank);
  if (known == claims_.end()) {
    claims_.emplace(rank, Claim{step});
    return false;
  }
  Claim& claim = known->second;
  const bool confirms = step > claim.step && step - claim.step <= claim.step - at_;
  confirmed_ -= claim.confirmed ? 1 : 0;
  claim = {step, confirms};
  confirmed_ += confirms ? 1 : 0;
  if (2 * confirmed_ <= live_ranks) return false;

  // The least that most ranks agree on: whoever is behind it is not shut out by the jump.
  int64_t least = step;
  for (const auto& [other, said] : claims_) {
    if (said.confirmed) least = std::min(least, said.step);
  }
  at_ = least;
  assumed_ = false;
  claims_.clear();
  confirmed_ = 0;
  return step <= reach();
}

void StepGate::Forget(uint32_t rank) {
  const auto known = claims_.find(rank);
  if (known == claims_.end()) return;
  confirmed_ -= known->second.confirmed ? 1 : 0;
  claims_.erase(known);
}

bool StepGate::Closed(int64_t step) {
  if (!first_closed_.has_value()) first_closed_ = step;
  last_closed_ = step;
  ++closed_;
  const bool behind = assumed_ && step < at_;
  at_ = assumed_ ? step : std::max(at_, step);
  assumed_ = false;
  return behind;
}

void StepGate::Expect(int64_t step) { expected_ = std::max(expected_, step); }

void StepGate::Restore(int64_t first, int64_t last, int64_t count) {
  begun_ = true;
  first_closed_ = first;
  last_closed_ = last;
  closed_ = std::max<int64_t>(1, count);
  at_ = last;
}

}  // namespace foreshock::merge
