// cusum: sums of deviations from the baseline. Finds a shift that is too small to see in one
// sample.
#pragma once

#include <memory>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

// Each side has its sum s = max(0, s + z - slack), where z is the distance from the baseline in
// spreads. One sample adds at most half of the limit, so that no outlier fires alone. A sum is at
// most twice the limit, so that it comes down in limit/slack healthy samples.
struct CusumSpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"cusum"};
  static constexpr bool kComparesWithBaseline = true;

  Limits limits{.scale = Limits::Scale::kDistance};
  bool log = false;
  double slack = 0;  // spreads that a sample may be off without counting

  static CusumSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;

  Side side() const { return limits.side; }
  const Limits* movable_limits() const { return &limits; }
};

}  // namespace foreshock::rules
