// relative_drop and relative_rise: the ratio of the value to its baseline.
#pragma once

#include <memory>
#include <optional>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct RelativeSpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"relative_drop", "relative_rise"};
  static constexpr bool kComparesWithBaseline = true;

  Limits limits{.scale = Limits::Scale::kRatio};
  double min_z = 0;  // a breach is also at least so many spreads away

  static RelativeSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;
  // Neither abnormal nor clear without a positive baseline.
  Judgement Judge(double value, const std::optional<Baseline>& baseline) const;

  Side side() const { return limits.side; }
  const Limits* movable_limits() const { return &limits; }
  std::optional<double> LimitFor(const std::optional<double>& baseline) const;
  AllowedRange Allowed(const Baseline& baseline) const;
};

}  // namespace foreshock::rules
