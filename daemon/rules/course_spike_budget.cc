// The share of spikes among the newest samples. A spike is far from the baseline and never enters
// it. The share is of `samples` also while fewer have come, so that one spike of three samples is
// no third. Cost per sample: O(samples).

#include <algorithm>
#include <deque>

#include "daemon/rules/course.h"
#include "daemon/rules/detector.h"

namespace foreshock {
namespace {

class SpikeBudget final : public Course {
 public:
  Reading Push(const Detector& detector, const Sample& sample) override {
    const size_t n = static_cast<size_t>(detector.samples);
    Reading reading{.base_step = sample.base_step};
    if (sample.baseline.has_value()) {
      const bool spike = IsSpike(detector, InSpreads(sample.value, *sample.baseline));
      judged_.push_back({sample.step, sample.base_step, spike});
      if (judged_.size() > 2 * n) judged_.pop_front();  // twice, for resumes
      reading.admit = !spike;
    }
    int64_t spikes = 0;
    const Judged* first = nullptr;
    for (size_t i = judged_.size() - std::min(n, judged_.size()); i < judged_.size(); ++i) {
      if (judged_[i].spike && spikes++ == 0) first = &judged_[i];
    }
    reading.value = static_cast<double>(spikes) / static_cast<double>(n);
    if (!sample.baseline.has_value()) return reading;
    reading.judgement = Compare(detector, reading.value);
    if (reading.judgement.breach) reading.base_step = first->base_step;
    return reading;
  }

  void Rebase() override { judged_.clear(); }
  void Resume(int64_t step, bool /*firing*/) override {
    while (!judged_.empty() && judged_.back().step >= step) judged_.pop_back();
  }
  void Ended(bool released) override {
    if (released) judged_.clear();
  }
  void Fields(Archive* archive) override { archive->Take(&judged_); }

 private:
  struct Judged {
    int64_t step = 0;
    int64_t base_step = 0;
    bool spike = false;

    void Fields(Archive* archive) { archive->Take(&step, &base_step, &spike); }
  };

  static bool IsSpike(const Detector& detector, double z) {
    switch (detector.spike_side) {
      case Detector::Side::kAbove:
        return z > detector.spike_limit;
      case Detector::Side::kBelow:
        return z < detector.spike_limit;
      case Detector::Side::kOutside:
        return z > detector.spike_limit || z < -detector.spike_limit;
    }
    return false;
  }

  std::deque<Judged> judged_;  // oldest first
};

}  // namespace

std::unique_ptr<Course> NewSpikeBudget() { return std::make_unique<SpikeBudget>(); }

}  // namespace foreshock
