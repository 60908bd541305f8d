// How a run gets on: how long its steps take, since when none has closed, how often it began again.
//
//   Progress progress;
//   progress.BeginAttempt(std::nullopt);
//   progress.StepClosed(10, 0.25);          // and its train.step_seconds
//   progress.Tick(now_unix_ns, Life::kLive);  // again and again
//   if (progress.waiting_seconds() > 300) ...
//
// The clock comes in by Tick alone, so that the clocks of ranks and daemon are never mixed.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace foreshock::rules {

// Whether a run may be expected to get on.
enum class Life : uint8_t {
  kLive,
  kUnheard,  // nobody has spoken for it since the daemon started
  kEnded,    // it has said goodbye
};

// Thread-compatible.
class Progress {
 public:
  // `reached`: the furthest step that closed in any attempt before this one; unset: what was seen.
  void BeginAttempt(std::optional<int64_t> reached);
  // `seconds`: time per step, if it is known of this step.
  void StepClosed(int64_t step, std::optional<double> seconds);
  // The wait begins with the first Tick of a run that lives.
  void Tick(int64_t now_unix_ns, Life life);

  // Of the newest 32 steps whose time is known, whatever their attempt.
  std::optional<double> median_step_seconds() const;
  // Between the newest step of the attempt (before one: its begin) and the newest Tick, as far as
  // ticks can tell; 0 before the first.
  double waiting_seconds() const { return static_cast<double>(waiting_ns_) / 1e9; }
  bool step_closed() const { return step_closed_; }  // of this attempt
  // The furthest step that ever closed; -1: none.
  int64_t reached() const { return reached_; }
  // Attempts after the first one that began while `reached` grew by the last `steps`.
  int RestartsWithin(int64_t steps) const;

  // All but the wait, which is of this process.
  template <typename A>
  void serialize(A& archive) {
    archive(seconds_, begun_at_, first_begun_, step_closed_, reached_);
  }

 private:
  std::deque<double> seconds_;
  std::deque<int64_t> begun_at_;  // `reached` when attempts after the first one began
  bool first_begun_ = false;
  bool step_closed_ = false;
  int64_t reached_ = -1;
  std::optional<int64_t> since_ns_;  // the first Tick after the newest step or begin
  int64_t waiting_ns_ = 0;
};

}  // namespace foreshock::rules
