// non_finite: findings of values that are no numbers, by name, and on how many of the ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/rules/detectors/spec.h"
#include "daemon/rules/input.h"

namespace foreshock::rules {

struct NonFiniteSpec : FindingSpec {
  static constexpr absl::string_view kNames[] = {"non_finite"};

  std::vector<std::string> names;  // exact, or a prefix ending in '*'; empty: all
  Input::Scope scope = Input::Scope::kAny;
  // Shares of the ranks that took part in the step.
  double ranks_more_than = 0;
  double ranks_at_most = 1;
  bool skipped_steps = false;  // steps whose optimizer step was skipped are judged too

  static NonFiniteSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<RuleJudge> NewJudge(std::shared_ptr<const Rule> rule) const;
};

}  // namespace foreshock::rules
