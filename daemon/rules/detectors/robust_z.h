// robust_z: the distance of the value from its baseline, in spreads.
#pragma once

#include <memory>
#include <optional>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct RobustZSpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"robust_z"};
  static constexpr bool kComparesWithBaseline = true;

  Limits limits{.scale = Limits::Scale::kDistance};
  bool log = false;  // of the logarithm of positive values

  static RobustZSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;
  Judgement Judge(double value, const std::optional<Baseline>& baseline) const;

  Side side() const { return limits.side; }
  const Limits* movable_limits() const { return &limits; }
  AllowedRange Allowed(const Baseline& baseline) const;
};

}  // namespace foreshock::rules
