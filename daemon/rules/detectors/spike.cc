#include "daemon/rules/detectors/spike.h"

#include "daemon/detect/spike.h"

namespace foreshock::rules {

SpikeSpec SpikeSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  SpikeSpec spec;
  ParseChange(node, {.size_min = 0.001, .noises = 8, .logarithm = true}, &spec);
  return spec;
}

std::unique_ptr<SampleDetector> SpikeSpec::NewDetector() const {
  return std::make_unique<ChangeDetector<detect::Spike>>(detect::Spike(limits), positive,
                                                         accept_after);
}

}  // namespace foreshock::rules
