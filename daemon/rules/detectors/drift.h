// drift: a rise or fall over hundreds of rows that has no like in the series' past.
#pragma once

#include <memory>

#include "daemon/rules/detectors/change.h"

namespace foreshock::rules {

// See daemon/detect/drift.h.
struct DriftSpec : ChangeSpec {
  static constexpr absl::string_view kNames[] = {"drift"};

  static DriftSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;
};

}  // namespace foreshock::rules
