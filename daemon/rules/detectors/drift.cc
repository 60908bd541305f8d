#include "daemon/rules/detectors/drift.h"

#include "daemon/detect/drift.h"

namespace foreshock::rules {

DriftSpec DriftSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  DriftSpec spec;
  ParseChange(node, {.size_min = 0.01, .logarithm = true}, &spec);
  return spec;
}

std::unique_ptr<SampleDetector> DriftSpec::NewDetector() const {
  return std::make_unique<ChangeDetector<detect::Drift>>(detect::Drift(limits), positive,
                                                         accept_after);
}

}  // namespace foreshock::rules
