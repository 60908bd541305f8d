#include "daemon/rules/course.h"

#include <cmath>

namespace foreshock {

void Course::Overtaken(int64_t /*step*/, double /*value*/) {}
void Course::Save(rules::SeriesState* /*state*/) const {}
void Course::Restore(const rules::SeriesState& /*state*/) {}

std::unique_ptr<Course> NewCourse(const Detector& detector) {
  switch (detector.kind) {
    case Detector::Kind::kCusum:
      return NewCusum();
    case Detector::Kind::kLevelShift:
      return NewLevelShift();
    case Detector::Kind::kSlope:
      return NewSlope();
    case Detector::Kind::kSpikeBudget:
      return NewSpikeBudget();
    case Detector::Kind::kContinuity:
      return NewContinuity();
    default:
      return nullptr;
  }
}

double Shown(const Detector& detector, double value) {
  return detector.log ? std::exp(value) : value;
}

}  // namespace foreshock
