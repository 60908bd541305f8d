// Detectors that judge the run, not an indicator: hang, coverage, restarts.

#include <algorithm>

#include "absl/time/time.h"
#include "daemon/rules/parse.h"

namespace foreshock {
namespace {

constexpr YamlRange<absl::Duration> kWait = {absl::Milliseconds(100), absl::Hours(24 * 30)};

}  // namespace

void ParseHang(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kHang;
  detector->intervals = static_cast<int>(node.Get("intervals").Int({1, 1'000'000}, 20));
  const absl::Duration at_least = node.Get("at_least").Duration(kWait, absl::Minutes(5));
  detector->at_least_seconds = absl::ToDoubleSeconds(at_least);
  detector->first_step_seconds = absl::ToDoubleSeconds(
      node.Get("first_step").Duration(kWait, std::max(at_least, absl::Minutes(30))));
}

void ParseCoverage(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kCoverage;
  detector->intervals = static_cast<int>(node.Get("missing_intervals").Int({1, 1000}, 3));
}

void ParseRestarts(const YamlNode& node, Detector* detector) {
  detector->kind = Detector::Kind::kRestarts;
  detector->limit = static_cast<double>(node.Require("above").Int({0, 1000}, 0));
  detector->window_steps = ParseSteps(node.Require("in"));
}

}  // namespace foreshock
