// level_shift: the median of the newest samples against the baseline, in spreads. Finds a lasting
// change, however many outliers are among the samples.
#pragma once

#include <memory>
#include <string>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

struct LevelShiftSpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"level_shift"};
  static constexpr bool kComparesWithBaseline = true;

  Limits limits{.scale = Limits::Scale::kDistance};
  bool log = false;
  int samples = 0;  // the newest so many

  static LevelShiftSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;

  Side side() const { return limits.side; }
  const Limits* movable_limits() const { return &limits; }
  int newest_samples() const { return samples; }
  std::string Measured(std::string input) const;
};

}  // namespace foreshock::rules
