// Wall-clock time as a dependency, so that tests can set it. Rules never read it: they are told the
// step.
#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace foreshock {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;  // thread-safe
};

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace foreshock
