// continuity: what a series shows after a resume against what it showed at the same steps before.
#pragma once

#include <memory>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

// A series remembers its newest `samples` values. A resume sets those of later steps aside to
// compare with, each once.
struct ContinuitySpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"continuity"};
  static constexpr bool kComparesWithBaseline = true;
  static constexpr bool kComparesAttempts = true;

  double outside = 0;  // share of the value before
  double clear = 0;    // likewise
  double min_z = 0;    // a breach is also at least so many spreads away
  Length within;       // after the resume
  int samples = 0;

  static ContinuitySpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;

  Side side() const { return Side::kOutside; }
};

}  // namespace foreshock::rules
