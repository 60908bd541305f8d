// The median of the newest samples against the baseline, in spreads: a lasting change, however many
// outliers there are among the samples. The newest samples are no part of a lagged baseline.

#include <deque>
#include <vector>

#include "daemon/base/order_statistics.h"
#include "daemon/rules/course.h"
#include "daemon/rules/detector.h"

namespace foreshock {
namespace {

class LevelShift final : public Course {
 public:
  Reading Push(const Detector& detector, const Sample& sample) override {
    const size_t n = static_cast<size_t>(detector.samples);
    kept_.push_back({sample.step, sample.base_step, sample.value});
    if (kept_.size() > 2 * n) kept_.pop_front();  // twice, for resumes
    Reading reading{.value = Shown(detector, sample.value), .base_step = sample.base_step};
    if (kept_.size() < n || !sample.baseline.has_value()) return reading;
    std::vector<double> values;
    for (size_t i = kept_.size() - n; i < kept_.size(); ++i) values.push_back(kept_[i].value);
    const double median = Median(std::move(values));
    reading.judgement = Compare(detector, InSpreads(median, *sample.baseline));
    reading.value = Shown(detector, median);
    reading.baseline = Shown(detector, sample.baseline->median);
    reading.base_step = kept_[kept_.size() - n].base_step;
    return reading;
  }

  void Rebase() override { kept_.clear(); }
  void Resume(int64_t step, bool /*firing*/) override {
    while (!kept_.empty() && kept_.back().step >= step) kept_.pop_back();
  }
  void Ended(bool released) override {
    if (released) kept_.clear();
  }
  void Fields(Archive* archive) override { archive->Take(&kept_); }

 private:
  struct Kept {
    int64_t step = 0;
    int64_t base_step = 0;
    double value = 0;

    void Fields(Archive* archive) { archive->Take(&step, &base_step, &value); }
  };

  std::deque<Kept> kept_;  // oldest first
};

}  // namespace

std::unique_ptr<Course> NewLevelShift() { return std::make_unique<LevelShift>(); }

}  // namespace foreshock
