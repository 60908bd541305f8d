// Detectors that look at the course of a series and not at one value alone: what they remember of
// it beside the baseline, and how they judge. SeriesJudge owns one per series.
//
//   std::unique_ptr<Course> course = NewCourse(rule.detector);   // null: one value is enough
//   const Course::Reading reading = course->Push(rule.detector, {.step = 7, .value = 0.3});
//   if (reading.judgement.breach) ...
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/base/archive.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/state.pb.h"

namespace foreshock {

// Thread-compatible. The detector must be the same, or an equal one, in every call.
class Course {
 public:
  struct Sample {
    int64_t step = 0;
    int64_t base_step = 0;                  // the last step that the value does not reflect
    double value = 0;                       // its logarithm if the detector asks for that
    std::optional<Baseline> baseline = {};  // likewise; frozen while pending or firing
    bool firing = false;
  };
  struct Reading {
    Judgement judgement = {};
    double value = 0;                     // what the alert shows as its value ...
    std::optional<double> baseline = {};  // ... and beside it
    int64_t base_step = 0;                // the last step that none of it reflects
    bool admit = true;                    // false: the sample never enters the baseline
  };

  virtual ~Course() = default;
  // Samples in increasing order of steps, but for Resume.
  virtual Reading Push(const Detector& detector, const Sample& sample) = 0;
  // Another regime: what was before it is no past.
  virtual void Rebase() = 0;
  // A new attempt begins at `step`; what was remembered of later steps is not its past.
  virtual void Resume(int64_t step, bool firing) = 0;
  // Priming met a sample of an earlier attempt that the newest one has yet to reach.
  virtual void Overtaken(int64_t step, double value);
  // The alert has ended; `released`: because the new level is accepted.
  virtual void Ended(bool released) = 0;
  // What a restart without history needs to go on. With it, priming pushes every sample again.
  virtual void Save(rules::SeriesState* state) const;
  virtual void Restore(const rules::SeriesState& state);
  // All of it, for a restart that goes on from there.
  virtual void Fields(Archive* archive) = 0;
};

// nullptr for detectors that judge each value alone.
std::unique_ptr<Course> NewCourse(const Detector& detector);

// A value of the detector's domain as people know it.
double Shown(const Detector& detector, double value);

// One per detector, in course_NAME.cc.
std::unique_ptr<Course> NewCusum();
std::unique_ptr<Course> NewLevelShift();
std::unique_ptr<Course> NewSlope();
std::unique_ptr<Course> NewSpikeBudget();
std::unique_ptr<Course> NewContinuity();

}  // namespace foreshock
