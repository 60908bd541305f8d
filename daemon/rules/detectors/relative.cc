#include "daemon/rules/detectors/relative.h"

#include <algorithm>
#include <cmath>

#include "daemon/rules/parse.h"
#include "daemon/rules/sample_detector.h"

namespace foreshock::rules {

RelativeSpec RelativeSpec::Parse(const yaml::YamlNode& node, absl::string_view name) {
  RelativeSpec spec;
  const bool drop = name == "relative_drop";
  spec.limits.side = drop ? Side::kBelow : Side::kAbove;
  const yaml::YamlRange<double> range =
      drop ? yaml::YamlRange<double>{0, 1} : yaml::YamlRange<double>{1, kAnyNumber};
  spec.limits.limit = node.Require(drop ? "below" : "above").Double(range, 1);
  ParseClear(node, range, /*check=*/true, &spec.limits);
  spec.min_z = node.Get("min_z").Double({0, 1000}, 0);
  return spec;
}

std::unique_ptr<SampleDetector> RelativeSpec::NewDetector() const {
  return std::make_unique<SingleValue<RelativeSpec>>(*this, /*log=*/false);
}

Judgement RelativeSpec::Judge(double value, const std::optional<Baseline>& baseline) const {
  if (!baseline.has_value() || baseline->median <= 0) return {};
  Judgement judgement = Compare(limits, value / baseline->median);
  if (std::abs(value - baseline->median) < min_z * baseline->spread) {
    judgement.breach = false;
    judgement.measured = 1;  // no limit would be breached
  }
  return judgement;
}

std::optional<double> RelativeSpec::LimitFor(const std::optional<double>& baseline) const {
  if (!baseline.has_value()) return std::nullopt;
  return limits.limit * *baseline;
}

AllowedRange RelativeSpec::Allowed(const Baseline& baseline) const {
  AllowedRange allowed;
  if (baseline.median <= 0) return allowed;
  const double least = min_z * baseline.spread;
  const double limit = limits.limit * baseline.median;
  if (limits.side != Side::kBelow) allowed.high = std::max(limit, baseline.median + least);
  if (limits.side != Side::kAbove) allowed.low = std::min(limit, baseline.median - least);
  return allowed;
}

}  // namespace foreshock::rules
