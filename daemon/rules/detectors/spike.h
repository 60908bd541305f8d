// spike: single rows far from where the series stood.
#pragma once

#include <memory>

#include "daemon/rules/detectors/change.h"

namespace foreshock::rules {

// See daemon/detect/spike.h.
struct SpikeSpec : ChangeSpec {
  static constexpr absl::string_view kNames[] = {"spike"};

  static SpikeSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;
};

}  // namespace foreshock::rules
