// What the specs of all detectors have in common. A spec is the plain data of one detector of the
// rule language, read from the map under its name; detector.h lists them all.
//
//   struct SpikeSpec : SampleSpec {
//     static constexpr absl::string_view kNames[] = {"spike"};  // keys of a rule
//     static SpikeSpec Parse(const YamlNode& node, absl::string_view name);
//     std::unique_ptr<SampleDetector> NewDetector() const;       // one per series
//     Side side() const { return Side::kAbove; }                 // instead of a default from here
//   };
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/rules/limits.h"

namespace foreshock::rules {

class RuleJudge;
class SampleDetector;
}  // namespace foreshock::rules

namespace foreshock::yaml {
class YamlNode;
}  // namespace foreshock::yaml

namespace foreshock::rules {
struct Rule;

// What a detector judges.
enum class Family : uint8_t {
  kSamples,   // each sample of a series
  kFindings,  // findings of a step, such as non-finite input
  kAbsence,   // that an indicator's samples come
  kRun,       // the run: its steps, its attempts, what was announced of it
};

// Where a single value begins to be abnormal. Unset: never on that side, or not by one value.
struct AllowedRange {
  std::optional<double> low{};
  std::optional<double> high{};
};

// Defaults of all specs.
struct Spec {
  static constexpr bool kComparesWithBaseline = false;
  // Compares with the steps of an earlier attempt that the newest one has yet to reach.
  static constexpr bool kComparesAttempts = false;

  // Judges in the warm-up too, unless the rule says otherwise.
  static constexpr bool kJudgedFromTheStart = false;

  // Towards which side the worst of several series lies.
  Side side() const { return Side::kAbove; }
  // The limit that may be moved to make the rule more or less sensitive.
  const Limits* movable_limits() const { return nullptr; }
  // How many of the newest samples the detector looks at itself. A trailing baseline must leave
  // them out.
  int newest_samples() const { return 0; }
  // What is compared with the limits, in words, where the rule looks at `input`.
  std::string Measured(std::string input) const { return input; }
  // The limit in the unit of the value, where it is one number.
  std::optional<double> LimitFor(const std::optional<double>& /*baseline*/) const {
    return std::nullopt;
  }
  AllowedRange Allowed(const Baseline& /*baseline*/) const { return {}; }
};

struct SampleSpec : Spec {
  static constexpr Family kFamily = Family::kSamples;
};
struct FindingSpec : Spec {
  static constexpr Family kFamily = Family::kFindings;
};
struct AbsenceSpec : Spec {
  static constexpr Family kFamily = Family::kAbsence;
};
struct RunSpec : Spec {
  static constexpr Family kFamily = Family::kRun;
};

}  // namespace foreshock::rules
