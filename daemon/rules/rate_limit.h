// Keeps an alert from flapping: how often it may start in so many steps. The last start that is
// allowed is held: it goes on firing until it has been clear for the whole window, so that a
// further start inside the window cannot happen.
//
//   RateLimit limit;  // rate_limit: {starts: 3, in: 1000 steps}
//   if (holds && !active) limit.Start(spec, step);              // the alert begins
//   if (!holds && active && !limit.Holds(spec, step)) End();    // it may end
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace foreshock::rules {

struct RateLimitSpec {
  int starts = 0;     // 0: no limit
  int64_t steps = 0;  // the window
};

// Thread-compatible. The spec must be the same in every call.
class RateLimit {
 public:
  void Start(const RateLimitSpec& spec, int64_t step);
  // Takes the last start back: nobody was told of it.
  void TakeBack();
  // The condition holds at this step. Only while the alert is active.
  void Seen() { clear_since_.reset(); }
  // The condition does not hold at `step`, the alert is active: must it go on?
  bool Holds(const RateLimitSpec& spec, int64_t step);
  // A new attempt runs again from `step`.
  void Resume(int64_t step);

  bool flapping() const { return flapping_; }  // the alert that is active is the last one allowed

  template <typename A>
  void serialize(A& archive) {
    archive(starts_, flapping_, clear_since_);
  }

 private:
  std::deque<int64_t> starts_;  // the newest ones, oldest first; at most spec.starts
  bool flapping_ = false;
  std::optional<int64_t> clear_since_;
};

}  // namespace foreshock::rules
