#include "daemon/rules/detectors/slope.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/archive.h"
#include "daemon/base/order_statistics.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"
#include "daemon/rules/trend.h"

namespace foreshock::rules {
namespace {

constexpr int kTrendSamplesMax = 200;  // 19 900 pairs

class Slope final : public SampleDetector {
 public:
  explicit Slope(const SlopeSpec& spec) : spec_(spec) {}

  Reading Push(const Sample& sample) override {
    points_.push_back({sample.step, sample.value});
    base_steps_.push_back(sample.base_step);
    const size_t samples = static_cast<size_t>(spec_.samples);
    if (points_.size() > 2 * samples) {  // twice, for resumes
      points_.erase(points_.begin());
      base_steps_.erase(base_steps_.begin());
    }
    const size_t n = std::min(samples, points_.size());
    const absl::Span<const TrendPoint> newest = absl::MakeConstSpan(points_).last(n);
    Reading reading{.value = sample.value, .base_step = base_steps_[base_steps_.size() - n]};
    if (n < static_cast<size_t>(spec_.min_samples)) return reading;
    const bool trend = std::abs(MannKendallZ(newest)) >= spec_.min_z;
    const double slope = trend || sample.firing ? TheilSenSlope(newest) : 0;

    if (!spec_.will_cross) {
      reading.value = slope * spec_.per_steps;
      reading.judgement = Compare(spec_.limits, reading.value);
      if (!trend) reading.judgement.breach = false;
      return reading;
    }
    // Where the line through the samples is now, and where it will be.
    std::vector<double> levels;
    for (const TrendPoint& point : newest) {
      levels.push_back(point.value + slope * static_cast<double>(sample.step - point.step));
    }
    const double level = base::Median(std::move(levels));
    const double ahead = level + slope * static_cast<double>(spec_.ahead_steps);
    const bool above = spec_.limits.side == Side::kAbove;
    reading.value = above ? std::max(level, ahead) : std::min(level, ahead);
    reading.judgement = Compare(spec_.limits, reading.value);
    if (!trend) reading.judgement.breach = Compare(spec_.limits, level).breach;
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
  void HistoryFields(base::Archive* archive) override { archive->Take(&points_, &base_steps_); }

 private:
  const SlopeSpec& spec_;
  std::vector<TrendPoint> points_;   // oldest first
  std::vector<int64_t> base_steps_;  // one per sample
};

// A length that counts steps, at least one.
int64_t ParseStepCount(const yaml::YamlNode& node, int64_t fallback) {
  const Length length = ParseLength(node, {.count = fallback});
  if (length.in_samples || length.count < 1) {
    node.Error("a length in steps is expected, at least 1, for example \"500 steps\"");
    return fallback;
  }
  return length.count;
}

void ParseTrend(const yaml::YamlNode& node, SlopeSpec* spec) {
  const yaml::YamlNode samples = node.Get("samples");
  spec->samples = static_cast<int>(samples.Int({3, kTrendSamplesMax}, 30));
  const yaml::YamlNode min_samples = node.Get("min_samples");
  spec->min_samples =
      static_cast<int>(min_samples.Int({3, kTrendSamplesMax}, std::min(10, spec->samples)));
  if (spec->min_samples > spec->samples) {
    min_samples.Error(absl::StrCat("`min_samples` is ", spec->min_samples, " but `samples` is ",
                                   spec->samples, "; at most that many are there"));
  }
  const yaml::YamlNode min_z = node.Get("min_z");
  spec->min_z = min_z.Double({0, 100}, 3);
  const double largest = LargestMannKendallZ(spec->samples);
  if (spec->min_z <= largest) return;
  (min_z.present()     ? min_z
   : samples.present() ? samples
                       : node)
      .Error(absl::StrFormat("`min_z` is %g, but no trend of %d samples has more than %.2f; take "
                             "more samples, or a smaller `min_z`",
                             spec->min_z, spec->samples, largest));
}

}  // namespace

SlopeSpec SlopeSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  SlopeSpec spec;
  const yaml::YamlNode will_cross = node.Get("will_cross");
  const yaml::YamlNode above = node.Get("above");
  const yaml::YamlNode below = node.Get("below");
  const yaml::YamlNode per = node.Get("per");
  const yaml::YamlNode within = node.Get("within");
  const yaml::YamlNode clear = node.Get("clear");
  const LimitKeys keys{.outside = false, .scale = Limits::Scale::kDistance};
  spec.will_cross = will_cross.present();
  if (spec.will_cross) {
    for (const yaml::YamlNode& other : {above, below, per, clear}) {
      if (!other.present()) continue;
      other.Error(
          "not allowed beside `will_cross`, whose direction says which trend counts; its limits, "
          "`above` or `below` and `clear`, are of the value itself");
    }
    spec.limits = ParseLimits(will_cross, {-kAnyNumber, kAnyNumber}, keys);
    spec.ahead_steps = ParseStepCount(node.Require("within"), 1);
  } else {
    spec.limits = ParseLimits(node, {-kAnyNumber, kAnyNumber}, keys);
    const yaml::YamlNode& limit = above.present() ? above : below;
    if (above.present() ? spec.limits.limit < 0 : spec.limits.limit > 0) {
      limit.Error(absl::StrCat("the limit is ", spec.limits.limit,
                               above.present()
                                   ? ", which level and falling series pass too; at least 0"
                                   : ", which level and rising series pass too; at most 0",
                               " is allowed"));
    }
    spec.per_steps = static_cast<double>(ParseStepCount(per, 1000));
    if (within.present()) within.Error("`within` needs `will_cross`");
  }
  ParseTrend(node, &spec);
  return spec;
}

std::unique_ptr<SampleDetector> SlopeSpec::NewDetector() const {
  return std::make_unique<Slope>(*this);
}

std::string SlopeSpec::Measured(std::string input) const {
  return will_cross ? absl::StrCat(input, " ", ahead_steps, " steps ahead")
                    : absl::StrCat("the slope of ", input, " per ", per_steps, " steps");
}

}  // namespace foreshock::rules
