#include "daemon/rules/detectors/cusum.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "daemon/base/archive.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"

namespace foreshock::rules {
namespace {

struct Sum {
  double value = 0;
  int64_t base_step = 0;  // of the sample at which it left zero

  void Add(const CusumSpec& spec, double z, int64_t base) {
    const double limit = std::abs(spec.limits.limit);
    if (value == 0) base_step = base;
    value += std::min(z, limit / 2) - spec.slack;
    value = std::clamp(value, 0.0, 2 * limit);
  }
  template <typename A>
  void serialize(A& archive) {
    archive(value, base_step);
  }
};

class Cusum final : public SampleDetector {
 public:
  explicit Cusum(const CusumSpec& spec) : SampleDetector(spec.log), spec_(spec) {}

  Reading Push(const Sample& sample) override {
    Reading reading{.value = Shown(sample.value), .base_step = sample.base_step};
    if (!sample.baseline.has_value()) return reading;
    reading.baseline = Shown(sample.baseline->median);
    const double z = InSpreads(sample.value, *sample.baseline);
    up_.Add(spec_, z, sample.base_step);
    down_.Add(spec_, -z, sample.base_step);
    const bool up = spec_.limits.side == Side::kAbove ||
                    (spec_.limits.side == Side::kOutside && up_.value >= down_.value);
    reading.judgement = Compare(spec_.limits, up ? up_.value : -down_.value);
    reading.base_step = up ? up_.base_step : down_.base_step;
    return reading;
  }

  void Rebase() override { Zero(); }
  void Resume(int64_t /*step*/, bool firing) override {
    if (!firing) Zero();
  }
  void Ended() override { Zero(); }

  void AlertFields(base::Archive* archive) override { archive->Take(&up_, &down_); }

 private:
  void Zero() {
    up_ = Sum();
    down_ = Sum();
  }

  const CusumSpec& spec_;
  Sum up_;
  Sum down_;
};

}  // namespace

CusumSpec CusumSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  CusumSpec spec;
  spec.limits = ParseSpreads(node, /*hysteresis=*/true);
  spec.log = node.Get("log").Bool(false);
  const yaml::YamlNode slack = node.Get("slack");
  spec.slack = slack.Double({0, kSpreadsMax}, 0.5);
  // A sample adds at most half of the limit.
  if (spec.limits.limit != 0 && 2 * spec.slack >= std::abs(spec.limits.limit)) {
    slack.Error(absl::StrCat("`slack` is ", spec.slack, " but the limit is ", spec.limits.limit,
                             "; less than half of it is allowed, or no sample counts"));
  }
  return spec;
}

std::unique_ptr<SampleDetector> CusumSpec::NewDetector() const {
  return std::make_unique<Cusum>(*this);
}

}  // namespace foreshock::rules
