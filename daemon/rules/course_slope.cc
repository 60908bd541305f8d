// The trend of the newest samples over the steps, and where it leads. It counts as none unless it
// is significant (min_z). Cost per sample: O(samples^2) compares, and as many divisions where the
// trend is significant or the alert fires.

#include <algorithm>
#include <cmath>
#include <vector>

#include "daemon/base/order_statistics.h"
#include "daemon/rules/course.h"
#include "daemon/rules/detector.h"
#include "daemon/rules/trend.h"

namespace foreshock {
namespace {

class Slope final : public Course {
 public:
  Reading Push(const Detector& detector, const Sample& sample) override {
    points_.push_back({sample.step, sample.value});
    base_steps_.push_back(sample.base_step);
    const size_t samples = static_cast<size_t>(detector.samples);
    if (points_.size() > 2 * samples) {  // twice, for resumes
      points_.erase(points_.begin());
      base_steps_.erase(base_steps_.begin());
    }
    const size_t n = std::min(samples, points_.size());
    const absl::Span<const TrendPoint> newest = absl::MakeConstSpan(points_).last(n);
    Reading reading{.value = sample.value, .base_step = base_steps_[base_steps_.size() - n]};
    if (n < static_cast<size_t>(detector.min_samples)) return reading;
    const bool trend = std::abs(MannKendallZ(newest)) >= detector.min_z;
    const double slope = trend || sample.firing ? TheilSenSlope(newest) : 0;

    if (!detector.will_cross) {
      reading.value = slope * detector.per_steps;
      reading.judgement = Compare(detector, reading.value);
      if (!trend) reading.judgement.breach = false;
      return reading;
    }
    // Where the line through the samples is now, and where it will be.
    std::vector<double> levels;
    for (const TrendPoint& point : newest) {
      levels.push_back(point.value + slope * static_cast<double>(sample.step - point.step));
    }
    const double level = Median(std::move(levels));
    const double ahead = level + slope * static_cast<double>(detector.within.count);
    const bool above = detector.side == Detector::Side::kAbove;
    reading.value = above ? std::max(level, ahead) : std::min(level, ahead);
    reading.judgement = Compare(detector, reading.value);
    if (!trend) reading.judgement.breach = Compare(detector, level).breach;
    return reading;
  }

  void Rebase() override {
    points_.clear();
    base_steps_.clear();
  }
  void Resume(int64_t step, bool /*firing*/) override {
    while (!points_.empty() && points_.back().step >= step) {
      points_.pop_back();
      base_steps_.pop_back();
    }
  }
  void Ended(bool /*released*/) override {}
  void Fields(Archive* archive) override { archive->Take(&points_, &base_steps_); }

 private:
  std::vector<TrendPoint> points_;   // oldest first
  std::vector<int64_t> base_steps_;  // one per sample
};

}  // namespace

std::unique_ptr<Course> NewSlope() { return std::make_unique<Slope>(); }

}  // namespace foreshock
