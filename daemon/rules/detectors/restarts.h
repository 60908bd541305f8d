// restarts: a run that begins attempt after attempt and makes little progress.
#pragma once

#include <memory>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct RestartsSpec : RunSpec {
  static constexpr absl::string_view kNames[] = {"restarts"};

  int above = 0;             // attempts that begin ...
  int64_t window_steps = 0;  // ... while the run progresses by so many steps

  static RestartsSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<RuleJudge> NewJudge(std::shared_ptr<const Rule> rule) const;
};

}  // namespace foreshock::rules
