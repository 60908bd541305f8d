#include "daemon/rules/reference_bands.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "daemon/model/unit_message.h"
#include "daemon/rules/band.h"
#include "daemon/rules/rule.h"

namespace foreshock::rules {
namespace {

void AddPoints(const Rule& rule, const BandCurve& curve, v1::ReferenceBand* band) {
  for (const BandCurve::Point& point : curve.points()) {
    Baseline baseline = point.baseline;
    baseline.spread =
        std::max(baseline.spread, rule.baseline.spread_floor * std::abs(baseline.median));
    v1::BandPoint* added = band->add_points();
    added->set_position(point.position);
    added->set_median(baseline.median);
    added->set_spread(baseline.spread);
    const AllowedRange allowed = Allowed(rule.detector, baseline);
    if (allowed.low.has_value()) added->set_low(*allowed.low);
    if (allowed.high.has_value()) added->set_high(*allowed.high);
  }
}

}  // namespace

v1::ListBandsResponse ReferenceBands(const RuleSet& rules, const std::string& indicator) {
  v1::ListBandsResponse response;
  for (const auto& held : dynamic_cast<const CompiledRules&>(rules).rules) {
    const Rule& rule = *held;
    if (rule.baseline.band == nullptr || rule.input.indicators.size() != 1) continue;
    const std::string& judged = rule.input.indicators[0];
    if (!indicator.empty() && judged != indicator) continue;
    for (const auto& [series, curve] : rule.baseline.band->Of(rule.input.aggregate, judged)) {
      v1::ReferenceBand* band = response.add_bands();
      band->set_rule(rule.name);
      band->set_indicator(judged);
      band->set_aggregate(std::string(AggregateName(rule.input.aggregate)));
      if (series.layer != model::kNoLayer) band->set_layer(static_cast<uint32_t>(series.layer));
      band->set_unit(model::ToMessage(series.unit));
      band->set_unit_id(series.unit_id);
      band->set_unit_name(series.unit_name);
      band->set_by_tokens(rule.baseline.band->align() == Band::Align::kTokens);
      if (!indicator.empty()) AddPoints(rule, *curve, band);
    }
  }
  return response;
}

}  // namespace foreshock::rules
