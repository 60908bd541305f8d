#include "daemon/rules/detectors/level.h"

#include "daemon/detect/level.h"

namespace foreshock::rules {

LevelSpec LevelSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  LevelSpec spec;
  ParseChange(node, {.size_min = 0.001, .noises = 3, .logarithm = true}, &spec);
  return spec;
}

std::unique_ptr<SampleDetector> LevelSpec::NewDetector() const {
  return std::make_unique<ChangeDetector<detect::Level>>(detect::Level(limits), positive,
                                                         accept_after);
}

}  // namespace foreshock::rules
