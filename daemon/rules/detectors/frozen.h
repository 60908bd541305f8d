// frozen: a value that no longer changes, bit for bit, although it did; or that has become one
// value at once.
#pragma once

#include <memory>
#include <optional>

#include "daemon/rules/detectors/spec.h"

namespace foreshock::rules {

// See daemon/detect/frozen.h.
struct FrozenSpec : SampleSpec {
  static constexpr absl::string_view kNames[] = {"frozen"};
  static constexpr bool kJudgedFromTheStart = true;

  int samples = 0;
  std::optional<double> at;

  static FrozenSpec Parse(const yaml::YamlNode& node, absl::string_view name);
  std::unique_ptr<SampleDetector> NewDetector() const;
};

}  // namespace foreshock::rules
