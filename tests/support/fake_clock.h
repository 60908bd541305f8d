// A clock that tests set.
#pragma once

#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"

namespace foreshock::support {

class FakeClock final : public base::Clock {
 public:
  explicit FakeClock(absl::Time now = absl::FromUnixSeconds(1'800'000'000))
      : now_(now), steady_(now) {}
  absl::Time Now() const override {
    base::MutexLock lock(&mutex_);
    return now_;
  }
  absl::Time Steady() const override {
    base::MutexLock lock(&mutex_);
    return steady_;
  }
  void Advance(absl::Duration by) {
    base::MutexLock lock(&mutex_);
    now_ += by;
    steady_ += by;
  }
  // As when somebody sets the machine's clock.
  void Jump(absl::Duration by) {
    base::MutexLock lock(&mutex_);
    now_ += by;
  }

 private:
  mutable base::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
  absl::Time steady_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::support
