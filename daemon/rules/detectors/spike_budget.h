// spike_budget: the share of spikes among the newest samples. A spike is far from the baseline and
// never enters it.
#pragma once

#include <memory>
#include <string>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

// The share is of `samples` also while fewer have come, so that one spike of three samples is no
// third. Cost per sample: O(samples).
struct SpikeBudgetSpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"spike_budget"};
  static constexpr bool kComparesWithBaseline = true;

  Limits spike;      // in spreads; it has no `clear`
  bool log = false;  // of `spike`
  Limits share;
  int samples = 0;  // the newest so many

  static SpikeBudgetSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;

  std::string Measured(std::string input) const;
};

}  // namespace foreshock::rules
