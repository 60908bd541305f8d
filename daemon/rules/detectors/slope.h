// slope: the trend of the newest samples over the steps, or where it leads.
#pragma once

#include <memory>
#include <string>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

// A trend that is not significant (min_z) counts as none. Cost per sample: O(samples^2) compares,
// and as many divisions where the trend is significant or the alert fires.
struct SlopeSpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"slope"};

  Limits limits{.scale = Limits::Scale::kDistance};
  double min_z = 0;
  int samples = 0;          // the newest so many
  int min_samples = 0;      // fewer have no trend
  double per_steps = 1;     // the limits are per so many steps
  bool will_cross = false;  // the limits are of the value ...
  int64_t ahead_steps = 0;  // ... up to so many steps ahead

  static SlopeSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;

  Side side() const { return limits.side; }
  const Limits* movable_limits() const { return will_cross ? nullptr : &limits; }
  std::string Measured(std::string input) const;
};

}  // namespace foreshock::rules
