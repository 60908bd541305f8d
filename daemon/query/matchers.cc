#include "daemon/query/matchers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"

namespace foreshock::query_internal {
namespace {

using LabelOfSeries = std::string (*)(const SeriesKey&);

constexpr std::pair<absl::string_view, LabelOfSeries> kSeriesLabels[] = {
    {"indicator", [](const SeriesKey& key) { return key.indicator; }},
    {"layer",
     [](const SeriesKey& key) { return key.layer == kNoLayer ? "" : absl::StrCat(key.layer); }},
    {"unit", [](const SeriesKey& key) { return std::string(UnitName(key.unit)); }},
    {"unit_id", [](const SeriesKey& key) { return absl::StrCat(key.unit_id); }},
    {"unit_name", [](const SeriesKey& key) { return key.unit_name; }},
};

const LabelOfSeries* FindSeriesLabel(absl::string_view label) {
  for (const auto& [name, value] : kSeriesLabels) {
    if (name == label) return &value;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<LabelMatcher>> ParseMatchers(
    const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::vector<LabelMatcher> matchers;
  for (const std::string& text : texts) {
    FORESHOCK_ASSIGN_OR_RETURN(LabelMatcher matcher, LabelMatcher::Parse(text));
    matchers.push_back(std::move(matcher));
  }
  return matchers;
}

absl::Status CheckSeriesLabels(absl::Span<const LabelMatcher> matchers) {
  for (const LabelMatcher& matcher : matchers) {
    if (FindSeriesLabel(matcher.label()) != nullptr) continue;
    const auto name = [](std::string* out, const auto& label) {
      absl::StrAppend(out, label.first);
    };
    return absl::InvalidArgumentError(absl::StrCat("matcher on '", matcher.label(),
                                                   "': the labels of a series are ",
                                                   absl::StrJoin(kSeriesLabels, ", ", name)));
  }
  return absl::OkStatus();
}

bool MatchesAll(absl::Span<const LabelMatcher> matchers, const SeriesKey& key) {
  return std::all_of(matchers.begin(), matchers.end(), [&key](const LabelMatcher& matcher) {
    return matcher.Matches((*FindSeriesLabel(matcher.label()))(key));
  });
}

bool MatchesAll(absl::Span<const LabelMatcher> matchers, const model::RunRow& run) {
  return std::all_of(matchers.begin(), matchers.end(), [&run](const LabelMatcher& matcher) {
    if (matcher.label() == "name") return matcher.Matches(run.name());
    const auto label = run.labels().find(matcher.label());
    return matcher.Matches(label == run.labels().end() ? "" : label->second);
  });
}

}  // namespace foreshock::query_internal
