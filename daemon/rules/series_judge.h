// Judges the samples of one series (or of one layer's aggregate) by one rule: smoothing, baseline,
// detector, state machine, and the rule that what may be abnormal never enters the baseline.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/rules/baseline.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/sample_detector.h"
#include "daemon/rules/state_machine.h"

namespace foreshock::rules {

// Thread-compatible. Refers to its rule, which outlives it.
class SeriesJudge {
 public:
  explicit SeriesJudge(const Rule& rule)
      : rule_(&rule), detector_(NewSampleDetector(rule.detector)), window_(rule.baseline) {}

  // A defined, judged value. `base_step` is the last step that the value does not reflect: the
  // older snapshot of an update, else the series' previous sample. `given` is the baseline of
  // BaselineSpec::kPlateau and kReference.
  Transition Push(int64_t step, int64_t base_step, double value, std::optional<Baseline> given);
  // A verdict that needs no value of a series. `baseline` is only shown.
  Transition PushVerdict(int64_t step, int64_t base_step, bool breach, double value,
                         std::optional<double> baseline);

  // Another regime: forgets the past unless it is firing.
  void Rebase();
  // The same, firing or not: what is now is healthy.
  void Accept();
  // A new attempt begins at `step`.
  void Resume(int64_t step);
  // A value of an earlier attempt at a step that this one has yet to reach.
  void Overtaken(int64_t step, double value);
  // Stops firing without a word, keeping the past.
  void Silence() {
    machine_ = MachineState();
    frozen_.reset();
  }

  const MachineState& machine() const { return machine_; }
  bool firing() const { return machine_.phase == Phase::kFiring; }
  bool breaching() const { return breaching_; }                 // at its newest sample
  bool known() const { return known_; }                         // enough to judge that sample
  double value() const { return value_; }                       // newest judged
  int64_t judged_step() const { return judged_step_; }          // of it; -1: none
  std::optional<double> measured() const { return measured_; }  // it compared with the limit
  std::optional<double> baseline() const { return baseline_; }  // it was compared with
  int64_t base_step() const { return base_step_; }              // of the first abnormal sample
  std::optional<double> noise() const { return noise_; }        // one spread, of the newest sample
  // At which that sample would breach, where it is one number.
  std::optional<double> limit() const {
    return limit_.has_value() ? limit_ : LimitFor(rule_->detector, baseline_);
  }

  // See SampleDetector. Reading the first makes an end to what was pending.
  void AlertFields(base::Archive* archive);
  void HistoryFields(base::Archive* archive);

 private:
  std::optional<double> Smooth(double value);
  std::optional<Baseline> BaselineNow(const std::optional<Baseline>& given) const;
  std::optional<Baseline> InDomain(std::optional<Baseline> baseline) const;
  void Settle(Transition transition, const SampleDetector::Sample& sample, bool admit);

  struct Held {
    int64_t step = 0;
    double value = 0;

    template <typename A>
    void serialize(A& archive) {
      archive(step, value);
    }
  };

  const Rule* rule_;
  std::unique_ptr<SampleDetector> detector_;  // null where only verdicts are pushed
  MachineState machine_;
  SampleWindow window_;
  std::optional<Baseline> frozen_;  // while pending or firing
  std::vector<Held> held_;          // samples while pending: noise if it was a false start
  std::vector<double> recent_;      // the newest raw values, for smoothing
  double value_ = 0;
  int64_t judged_step_ = -1;
  std::optional<double> measured_;
  std::optional<double> baseline_;
  int64_t base_step_ = 0;
  std::optional<double> noise_;
  std::optional<double> limit_;  // that the detector has set
  bool breaching_ = false;
  bool known_ = false;
};

}  // namespace foreshock::rules
