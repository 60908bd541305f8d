// Where in its schedule a run is: whether the learning rate's warm-up is over and the run has
// settled, what the rate was at its end, and which steps change the regime on purpose.
//
//   Schedule schedule;
//   schedule.BeginAttempt(std::nullopt);
//   const uint8_t causes = schedule.Push({.step = 10, .lr = 1e-3, .tokens = 4096});
//   if (!schedule.settled()) return;   // no spectral or router verdicts yet
//
// The end of the warm-up is the first sample n of the learning rate with n >= 2 w, lr[n-w] > 0 and
// lr[n] <= 1.02 lr[n-w], where w = max(5, ceil(n / 20)): a window that grows with n also finds the
// end of a long warm-up, whose last steps rise by little. Settling takes min(150 steps, 10 snapshot
// windows) more; if the rate rises again meanwhile, after at most 100 samples or twice those up to
// the end (a staircase), it was not the end. A run without a learning rate only settles.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "daemon/rules/rule.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::rules {

class Schedule {
 public:
  struct StepInput {
    int64_t step = 0;
    std::optional<double> lr;
    double tokens = 0;            // 0: unknown
    int64_t snapshot_window = 0;  // steps between weight snapshots; 0: none seen at this step
    absl::Span<const v1::Event> events;
  };

  // The next step is the first of an attempt. A resume keeps what was known, unless its learning
  // rate starts below 0.9 of the parent's at that step: then a new warm-up is waited for.
  void BeginAttempt();

  // Steps of an attempt in increasing order. Returns the RebaseCause bits of this step.
  uint8_t Push(const StepInput& input);

  bool settled() const { return settled_; }
  // The learning rate at the end of the warm-up.
  std::optional<double> plateau() const { return plateau_; }

  template <typename A>
  void serialize(A& archive) {
    archive(attempt_lr_, lr_samples_, tokens_, past_, tokens_jitter_, first_of_attempt_, open_,
            settled_, plateau_inherited_, open_step_, open_sample_, snapshot_window_, plateau_);
  }

 private:
  struct Past {
    int64_t step = 0;
    std::optional<double> lr;
    double tokens = 0;

    template <typename A>
    void serialize(A& archive) {
      archive(step, lr, tokens);
    }
  };

  void Resume(const StepInput& input);
  void WatchWarmUp(const StepInput& input);
  void Open(int64_t step, double plateau);
  bool LrChanged(double lr) const;
  bool TokensChanged(double tokens);
  uint8_t Declared(const StepInput& input);

  std::vector<double> attempt_lr_;  // of the attempt; cut to the newest when the gate is open
  size_t lr_samples_ = 0;           // of the attempt
  std::deque<double> tokens_;       // newest last, since the last change
  std::vector<Past> past_;          // the lineage, to look up the parent at a resume
  bool tokens_jitter_ = false;      // the batch size changes from step to step
  bool first_of_attempt_ = true;
  bool open_ = false;
  bool settled_ = false;
  bool plateau_inherited_ = false;
  int64_t open_step_ = 0;
  size_t open_sample_ = 0;  // of the learning rate, at that step
  int64_t snapshot_window_ = 0;
  std::optional<double> plateau_;
};

}  // namespace foreshock::rules
