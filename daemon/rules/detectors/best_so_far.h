// best_so_far: means of the series against their own best: for what should only improve.
#pragma once

#include <memory>

#include "daemon/rules/detectors/change.h"

namespace foreshock::rules {

// See daemon/detect/best_so_far.h.
struct BestSoFarSpec : ChangeSpec {
  static constexpr absl::string_view kNames[] = {"best_so_far"};

  static BestSoFarSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;
};

}  // namespace foreshock::rules
