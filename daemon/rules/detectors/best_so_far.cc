#include "daemon/rules/detectors/best_so_far.h"

#include "daemon/detect/best_so_far.h"

namespace foreshock::rules {

BestSoFarSpec BestSoFarSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  BestSoFarSpec spec;
  ParseChange(node, {.size_min = 0.001, .noises = 6}, &spec);
  return spec;
}

std::unique_ptr<SampleDetector> BestSoFarSpec::NewDetector() const {
  return std::make_unique<ChangeDetector<detect::BestSoFar>>(detect::BestSoFar(limits), positive,
                                                             accept_after);
}

}  // namespace foreshock::rules
