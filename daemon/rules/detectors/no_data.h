// no_data: a series whose samples no longer come.
#pragma once

#include <memory>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct NoDataSpec : AbsenceSpec {
  static constexpr absl::string_view kNames[] = {"no_data"};

  int intervals = 3;  // expected samples that did not come

  static NoDataSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<RuleJudge> NewJudge(std::shared_ptr<const Rule> rule) const;
};

}  // namespace foreshock::rules
