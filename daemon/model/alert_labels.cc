#include "daemon/model/alert_labels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/nearest_word.h"

namespace foreshock::model {
namespace {

constexpr const char* kOwnLabels[] = {"run",  "rule", "severity", "fault",     "id",     "layer",
                                      "head", "rank", "unit",     "indicator", "attempt"};

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
  // The rule's author is the operator; the run's labels are said by whoever trains.
  for (const auto* labels : {&alert.labels(), &alert.run_labels()}) {
    if (const auto own = labels->find(label); own != labels->end()) return {own->second};
  }
  return {""};
}

}  // namespace

bool MatchesAll(const std::vector<base::LabelMatcher>& matchers, const v1::Alert& alert) {
  return std::all_of(matchers.begin(), matchers.end(), [&alert](const base::LabelMatcher& matcher) {
    return matcher.MatchesOneOf(LabelValues(alert, matcher.label()));
  });
}

absl::Status CheckAlertLabels(absl::Span<const base::LabelMatcher> matchers,
                              const std::set<std::string>& more) {
  std::set<std::string> all = more;
  for (const char* label : kOwnLabels) all.insert(label);
  const std::vector<std::string> known(all.begin(), all.end());
  for (const base::LabelMatcher& matcher : matchers) {
    if (all.contains(matcher.label())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "matcher '", matcher.text(), "': no alert has the label '", matcher.label(), "'",
        base::DidYouMean(matcher.label(), known), "; labels are ", absl::StrJoin(known, ", "),
        " (of the alert, of the rules in force, and run_labels of the configuration)"));
  }
  return absl::OkStatus();
}

}  // namespace foreshock::model
