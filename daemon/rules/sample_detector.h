// Judges the samples of one series: whether each is abnormal, by itself or in the course of the
// series. One object per series; SeriesJudge owns it and feeds it smoothed values with their
// baseline.
//
//   std::unique_ptr<SampleDetector> detector = spec.NewDetector();
//   const SampleDetector::Reading reading = detector->Push({.step = 7, .value = 0.3});
//   if (reading.judgement.breach) ...
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/rules/baseline.h"
#include "daemon/rules/state_machine.h"

namespace foreshock::base {
class Archive;
}  // namespace foreshock::base

namespace foreshock::rules {

// Thread-compatible. A detector may refer to its spec, which outlives it.
class SampleDetector {
 public:
  struct Sample {
    int64_t step = 0;
    int64_t base_step = 0;                  // the last step that the value does not reflect
    double value = 0;                       // its logarithm if log()
    std::optional<Baseline> baseline = {};  // likewise; frozen while pending or firing
    bool firing = false;
  };
  struct Reading {
    Judgement judgement = {};
    double value = 0;                     // what the alert shows as its value ...
    std::optional<double> baseline = {};  // ... and beside it
    // Where the detector does not compare with sample.baseline: where the value would breach, and
    // one spread of what is usual.
    std::optional<double> limit = {};
    std::optional<double> noise = {};
    int64_t base_step = 0;  // the last step that none of it reflects
    bool admit = true;      // false: the sample never enters the baseline
  };

  explicit SampleDetector(bool log = false) : log_(log) {}
  virtual ~SampleDetector() = default;
  SampleDetector(const SampleDetector&) = delete;
  SampleDetector& operator=(const SampleDetector&) = delete;

  // Whether values and baselines come as logarithms.
  bool log() const { return log_; }

  // Samples in increasing order of steps, but for Resume.
  virtual Reading Push(const Sample& sample) = 0;
  // Another regime begins: what was before it is no past.
  virtual void Rebase() {}
  // A new attempt begins at `step`. What was remembered of later steps is not its past.
  virtual void Resume(int64_t /*step*/, bool /*firing*/) {}
  // Priming met a sample of an earlier attempt that the newest one has yet to reach.
  virtual void Overtaken(int64_t /*step*/, double /*value*/) {}
  // The alert has ended.
  virtual void Ended() {}
  // What it remembers over a restart: what an alert that fires needs to go on, which is stored with
  // the alert, and the rest.
  virtual void AlertFields(base::Archive* /*archive*/) {}
  virtual void HistoryFields(base::Archive* /*archive*/) {}

 protected:
  // A value as people know it.
  double Shown(double value) const { return log_ ? std::exp(value) : value; }

 private:
  const bool log_;
};

// Judges each value alone, by Spec::Judge(value, baseline).
template <typename Spec>
class SingleValue final : public SampleDetector {
 public:
  SingleValue(const Spec& spec, bool log) : SampleDetector(log), spec_(spec) {}

  Reading Push(const Sample& sample) override {
    Reading reading{.judgement = spec_.Judge(sample.value, sample.baseline),
                    .value = Shown(sample.value),
                    .base_step = sample.base_step};
    if (sample.baseline.has_value()) reading.baseline = Shown(sample.baseline->median);
    return reading;
  }

 private:
  const Spec& spec_;
};

}  // namespace foreshock::rules
