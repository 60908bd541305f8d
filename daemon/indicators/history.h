// What some indicators need of earlier steps of the attempt: the last losses and gradient norms
// (spike scores) and the last steps of expert counts (dead experts). One per (run, attempt).
//
// Finish feeds it. After a restart it goes on from what it remembered (serialize), or is rebuilt
// from stored points by the same calls, in step order, before the first new step:
//
//   History history;
//   for (const Point& p : last 1 100 points of train.loss) history.ObserveScalar("loss", p.step,
//   p.value); for (const Point& p : last 20 points of train.grad_norm)
//     history.ObserveScalar("grad_norm", p.step, p.value);
//   history.ObserveTime(step, time) of the last step that had a time;
//   for each step and layer of the last 210 steps:
//     history.ObserveLoad(layer, step, shares);   // load.share
//
// Without the last loop load.dead_fraction is undefined ("warming_up") for 200 steps after the
// restart; nothing else is lost. What is observed is taken as it is stored, so both ways agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace foreshock::indicators {

// Thread-compatible. Memory: O(1 000) numbers for scalars, 21 vectors of E counts per layer.
class History {
 public:
  // `name` is "loss" or "grad_norm"; others are ignored. Steps must increase: a value at or before
  // the last step seen under `name` is ignored.
  void ObserveScalar(absl::string_view name, int64_t step, double value);

  // (x - median_20) / max(6 * 1.4826 * MAD_20, 0.05 |median_20|) of the last value observed, over
  // the 20 values before it; the loss goes through a running median of 5 first. Empty before 20
  // values are there, and when the denominator is 0.
  std::optional<double> SpikeScore(absl::string_view name) const;

  // Loss spikes (a score that rises above 1) per 1 000 steps, over at most the last 1 000 steps.
  // Empty before 100 steps had a score.
  std::optional<double> SpikeRate() const;

  // Wall clock of a step, 0: unknown. Steps must increase.
  void ObserveTime(int64_t step, int64_t time_unix_ns);

  // Seconds per step between the last two steps observed: their times apart over their numbers
  // apart. Else why not: "no_time" (the step has none), "no_base" (the first that has one), or
  // "clock_back" (the clock went back or stood still; the next step is measured from there).
  struct StepSeconds {
    std::optional<double> value;
    absl::string_view undefined;
  };
  StepSeconds LastStepSeconds() const { return step_seconds_; }

  // Assignments per expert of one layer in one step, or shares: every step weighs the same. Steps
  // must increase per layer.
  void ObserveLoad(uint32_t layer, int64_t step, absl::Span<const double> counts);

  // Share of experts with under 1 % of the even load over the last 200 to 209 steps. Empty until
  // the layer's counts span 200 steps, or when nothing was assigned.
  std::optional<double> DeadFraction(uint32_t layer) const;

  // Between two steps.
  template <typename A>
  void serialize(A& archive) {
    archive(loss_, grad_norm_, judged_, spikes_, last_time_, in_spike_, load_);
  }

 private:
  struct ScalarWindow {
    int64_t last_step = -1;
    std::deque<double> raw;       // at most 5, oldest first
    std::deque<double> smoothed;  // at most 21: the last one is judged against the others

    template <typename A>
    void serialize(A& archive) {
      archive(last_step, raw, smoothed);
    }
  };
  struct Judged {
    int64_t step = 0;
    bool spike_begins = false;

    template <typename A>
    void serialize(A& archive) {
      archive(step, spike_begins);
    }
  };
  struct LoadBlock {
    int64_t first_step = 0;  // multiple of 10
    std::vector<double> counts;

    template <typename A>
    void serialize(A& archive) {
      archive(first_step, counts);
    }
  };
  struct LoadWindow {
    int64_t first_step = 0;
    int64_t last_step = -1;
    std::deque<LoadBlock> blocks;

    template <typename A>
    void serialize(A& archive) {
      archive(first_step, last_step, blocks);
    }
  };

  const ScalarWindow* WindowOf(absl::string_view name) const;
  void Judge(int64_t step);

  ScalarWindow loss_;
  ScalarWindow grad_norm_;
  std::deque<Judged> judged_;
  size_t spikes_ = 0;
  std::optional<std::pair<int64_t, int64_t>> last_time_;  // (step, time) of the last that had one
  StepSeconds step_seconds_{std::nullopt, "no_base"};
  bool in_spike_ = false;
  absl::flat_hash_map<uint32_t, LoadWindow> load_;
};

}  // namespace foreshock::indicators
