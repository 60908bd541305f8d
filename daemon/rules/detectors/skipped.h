// skipped: a run whose optimizer steps are left out, as mixed precision does at an overflow.
#pragma once

#include <memory>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct SkippedSpec : RunSpec {
  static constexpr absl::string_view kNames[] = {"skipped"};

  double share = 0.5;     // of the newest steps, 0 to 1
  int64_t of_steps = 50;  // so many
  static SkippedSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<RuleJudge> NewJudge(std::shared_ptr<const Rule> rule) const;
};

}  // namespace foreshock::rules
