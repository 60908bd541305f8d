// When to ask a receiver again that did not take something: after a wait that doubles from one
// second to five minutes. The wait is random below that limit, so that many daemons do not come
// back at once.
//
//   if (clock.Waits(now)) return clock.until();
//   ... on failure: clock.Failed(now, random(), result.retry_after); on success: clock.Succeeded();
#pragma once

#include "absl/time/time.h"

namespace foreshock::notify {

// The wait after `failures` (>= 1) failures in a row; `random` in [0, 1).
absl::Duration Backoff(int failures, double random);

// Value type. Times are steady.
class RetryClock {
 public:
  bool Waits(absl::Time now) const { return now < until_; }
  absl::Time until() const { return until_; }
  int failures() const { return failures_; }  // in a row

  // `at_least`: the receiver asked not to be asked before.
  void Failed(absl::Time now, double random, absl::Duration at_least);
  void Succeeded() { failures_ = 0; }

 private:
  int failures_ = 0;
  absl::Time until_ = absl::InfinitePast();
};

}  // namespace foreshock::notify
