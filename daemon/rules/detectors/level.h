// level: a jump of the series that stays, at any scale from one row to 1 024 rows a value.
#pragma once

#include <memory>

#include "daemon/rules/detectors/change.h"

namespace foreshock::rules {

// See daemon/detect/level.h.
struct LevelSpec : ChangeSpec {
  static constexpr absl::string_view kNames[] = {"level"};

  static LevelSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;
};

}  // namespace foreshock::rules
