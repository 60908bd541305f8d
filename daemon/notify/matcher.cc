#include "daemon/notify/matcher.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace foreshock::notify {
namespace {

std::vector<std::string> LabelValues(const v1::Alert& alert, const std::string& label) {
  if (label == "run") return {alert.run()};
  if (label == "rule") return {alert.rule()};
  if (label == "severity") return {alert.severity()};
  if (label == "fault") return {alert.fault()};
  if (label == "indicator") return {alert.indicator()};
  if (label == "id") return {alert.id()};
  if (label == "attempt") return {absl::StrCat(alert.attempt())};
  if (label == "unit") return {alert.unit_name()};
  if (label == "head") return {alert.has_head() ? absl::StrCat(alert.head()) : ""};
  if (label == "rank") return {alert.has_rank() ? absl::StrCat(alert.rank()) : ""};
  if (label == "layer") {
    std::vector<std::string> layers;
    for (const uint32_t layer : alert.layers()) layers.push_back(absl::StrCat(layer));
    if (layers.empty()) layers.emplace_back();
    return layers;
  }
  const auto own = alert.labels().find(label);
  return {own == alert.labels().end() ? "" : own->second};
}

}  // namespace

bool MatchesAll(const std::vector<base::LabelMatcher>& matchers, const v1::Alert& alert) {
  return std::all_of(matchers.begin(), matchers.end(), [&alert](const base::LabelMatcher& matcher) {
    return matcher.MatchesOneOf(LabelValues(alert, matcher.label()));
  });
}

}  // namespace foreshock::notify
