// coverage: data and ranks that were announced and do not come.
#pragma once

#include <memory>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct CoverageSpec : RunSpec {
  static constexpr absl::string_view kNames[] = {"coverage"};

  int missing_intervals = 3;  // expected samples that did not come

  static CoverageSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<RuleJudge> NewJudge(std::shared_ptr<const Rule> rule) const;
};

}  // namespace foreshock::rules
