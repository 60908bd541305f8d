// Sums of deviations from the baseline: finds a shift that is too small to see in one sample. Each
// side has its sum s = max(0, s + z - slack), z the distance from the baseline in spreads. One
// sample adds at most half of the limit, so that no outlier fires alone, and a sum is at most twice
// the limit, so that it comes down again in limit/slack healthy samples.

#include <algorithm>
#include <cmath>

#include "daemon/rules/course.h"
#include "daemon/rules/detector.h"

namespace foreshock {
namespace {

struct Sum {
  double value = 0;
  int64_t base_step = 0;  // of the sample at which it left zero

  void Add(const Detector& detector, double z, int64_t base) {
    const double limit = std::abs(detector.limit);
    if (value == 0) base_step = base;
    value += std::min(z, limit / 2) - detector.slack;
    value = std::clamp(value, 0.0, 2 * limit);
  }
  void Fields(Archive* archive) { archive->Take(&value, &base_step); }
};

class Cusum final : public Course {
 public:
  Reading Push(const Detector& detector, const Sample& sample) override {
    Reading reading{.value = Shown(detector, sample.value), .base_step = sample.base_step};
    if (!sample.baseline.has_value()) return reading;
    reading.baseline = Shown(detector, sample.baseline->median);
    const double z = InSpreads(sample.value, *sample.baseline);
    up_.Add(detector, z, sample.base_step);
    down_.Add(detector, -z, sample.base_step);
    const bool up = detector.side == Detector::Side::kAbove ||
                    (detector.side == Detector::Side::kOutside && up_.value >= down_.value);
    reading.judgement = Compare(detector, up ? up_.value : -down_.value);
    reading.base_step = up ? up_.base_step : down_.base_step;
    return reading;
  }

  void Rebase() override { Zero(); }
  void Resume(int64_t /*step*/, bool firing) override {
    if (!firing) Zero();
  }
  void Ended(bool /*released*/) override { Zero(); }

  void Save(rules::SeriesState* state) const override {
    state->set_cusum_up(up_.value);
    state->set_cusum_up_base(up_.base_step);
    state->set_cusum_down(down_.value);
    state->set_cusum_down_base(down_.base_step);
  }
  void Restore(const rules::SeriesState& state) override {
    up_ = {.value = state.cusum_up(), .base_step = state.cusum_up_base()};
    down_ = {.value = state.cusum_down(), .base_step = state.cusum_down_base()};
  }
  void Fields(Archive* archive) override { archive->Take(&up_, &down_); }

 private:
  void Zero() {
    up_ = Sum();
    down_ = Sum();
  }

  Sum up_;
  Sum down_;
};

}  // namespace

std::unique_ptr<Course> NewCusum() { return std::make_unique<Cusum>(); }

}  // namespace foreshock
