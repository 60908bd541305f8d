#include "daemon/rules/detectors/robust_z.h"

#include <cmath>

#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"

namespace foreshock::rules {

RobustZSpec RobustZSpec::Parse(const yaml::YamlNode& node, absl::string_view /*name*/) {
  RobustZSpec spec;
  spec.limits = ParseLimits(node, {-1e6, 1e6}, {.scale = Limits::Scale::kDistance});
  spec.log = node.Get("log").Bool(false);
  return spec;
}

std::unique_ptr<SampleDetector> RobustZSpec::NewDetector() const {
  return std::make_unique<SingleValue<RobustZSpec>>(*this, log);
}

Judgement RobustZSpec::Judge(double value, const std::optional<Baseline>& baseline) const {
  if (!baseline.has_value()) return {};
  return Compare(limits, InSpreads(value, *baseline));
}

AllowedRange RobustZSpec::Allowed(const Baseline& baseline) const {
  AllowedRange allowed;
  if (log && baseline.median <= 0) return allowed;
  const auto at = [&](double spreads) {
    return log ? baseline.median * std::exp(spreads * baseline.spread / baseline.median)
               : baseline.median + spreads * baseline.spread;
  };
  if (limits.side != Side::kBelow) allowed.high = at(limits.limit);
  if (limits.side != Side::kAbove) {
    allowed.low = at(limits.side == Side::kBelow ? limits.limit : -limits.limit);
  }
  return allowed;
}

}  // namespace foreshock::rules
