// Time as a dependency, so that tests can set it. Rules never read it: they are told the step.
#pragma once

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace foreshock {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // The time of day, for what is stored and shown. It jumps when somebody sets the machine's clock.
  virtual absl::Time Now() const = 0;
  // For how long something lasts: never set back or forward. The time of day at the start of the
  // process and what has passed since, so the two may lie apart.
  virtual absl::Time Steady() const = 0;
};

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Time Steady() const override {
    return origin_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_origin_);
  }

 private:
  const absl::Time origin_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_origin_ = std::chrono::steady_clock::now();
};

}  // namespace foreshock
