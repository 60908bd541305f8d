// hang: no step has closed for long.
#pragma once

#include <memory>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct HangSpec : RunSpec {
  static constexpr absl::string_view kNames[] = {"hang"};

  int intervals = 20;             // usual step times ...
  double at_least_seconds = 0;    // ... and no shorter wait is one
  double first_step_seconds = 0;  // the same before an attempt's first step

  static HangSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<RuleJudge> NewJudge(std::shared_ptr<const Rule> rule) const;
};

}  // namespace foreshock::rules
