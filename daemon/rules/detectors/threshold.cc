#include "daemon/rules/detectors/threshold.h"

#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"

namespace foreshock::rules {

ThresholdSpec ThresholdSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  ThresholdSpec spec;
  spec.limits = ParseLimits(node, {-kAnyNumber, kAnyNumber}, {.outside = false});
  return spec;
}

std::unique_ptr<SampleDetector> ThresholdSpec::NewDetector() const {
  return std::make_unique<SingleValue<ThresholdSpec>>(*this, /*log=*/false);
}

}  // namespace foreshock::rules
