// Time as a dependency, so that tests can set it. Rules never read it: they are told the step.
#pragma once

#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace foreshock::base {

// For how long something lasts: never set back or forward. The time of day at the start of the
// process and what has passed since, so the two may lie apart.
inline absl::Time SteadyNow() {
  using Steady = std::chrono::steady_clock;
  static const std::pair<absl::Time, Steady::time_point> origin{absl::Now(), Steady::now()};
  return origin.first + absl::FromChrono(Steady::now() - origin.second);
}

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // The time of day, for what is stored and shown. It jumps when somebody sets the machine's clock.
  virtual absl::Time Now() const = 0;
  virtual absl::Time Steady() const = 0;  // as SteadyNow
};

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Time Steady() const override { return SteadyNow(); }
};

}  // namespace foreshock::base
