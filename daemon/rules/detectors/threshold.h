// threshold: the value against fixed limits.
#pragma once

#include <memory>
#include <optional>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct ThresholdSpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"threshold"};

  Limits limits;

  static ThresholdSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;
  Judgement Judge(double value, const std::optional<Baseline>& /*baseline*/) const {
    return Compare(limits, value);
  }

  Side side() const { return limits.side; }
  const Limits* movable_limits() const { return &limits; }
  std::optional<double> LimitFor(const std::optional<double>& /*baseline*/) const {
    return limits.limit;
  }
};

}  // namespace foreshock::rules
