#include "daemon/rules/detectors/frozen.h"

#include "daemon/detect/frozen.h"
#include "daemon/rules/detectors/change.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {

FrozenSpec FrozenSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  FrozenSpec spec;
  spec.samples = static_cast<int>(node.Get("samples").Int({2, kSamplesMax}, 30));
  const yaml::YamlNode at = node.Get("at");
  if (at.present()) spec.at = at.Double({-kAnyNumber, kAnyNumber});
  return spec;
}

std::unique_ptr<SampleDetector> FrozenSpec::NewDetector() const {
  return std::make_unique<ChangeDetector<detect::Frozen>>(detect::Frozen(samples, at),
                                                          /*positive=*/false);
}

}  // namespace foreshock::rules
