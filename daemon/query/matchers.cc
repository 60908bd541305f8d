#include "daemon/query/matchers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"

namespace foreshock::query::internal {
namespace {

using LabelOfSeries = std::string (*)(const model::SeriesKey&);

constexpr std::pair<absl::string_view, LabelOfSeries> kSeriesLabels[] = {
    {"indicator", [](const model::SeriesKey& key) { return key.indicator; }},
    {"layer",
     [](const model::SeriesKey& key) {
       return key.layer == model::kNoLayer ? "" : absl::StrCat(key.layer);
     }},
    {"unit", [](const model::SeriesKey& key) { return std::string(model::UnitName(key.unit)); }},
    {"unit_id", [](const model::SeriesKey& key) { return absl::StrCat(key.unit_id); }},
    {"unit_name", [](const model::SeriesKey& key) { return key.unit_name; }},
};

const LabelOfSeries* FindSeriesLabel(absl::string_view label) {
  for (const auto& [name, value] : kSeriesLabels) {
    if (name == label) return &value;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<base::LabelMatcher>> ParseMatchers(
    const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::vector<base::LabelMatcher> matchers;
  for (const std::string& text : texts) {
    FORESHOCK_ASSIGN_OR_RETURN(base::LabelMatcher matcher, base::LabelMatcher::Parse(text));
    matchers.push_back(std::move(matcher));
  }
  return matchers;
}

absl::Status CheckSeriesLabels(absl::Span<const base::LabelMatcher> matchers) {
  for (const base::LabelMatcher& matcher : matchers) {
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

bool MatchesAll(absl::Span<const base::LabelMatcher> matchers, const model::SeriesKey& key) {
  return std::all_of(matchers.begin(), matchers.end(), [&key](const base::LabelMatcher& matcher) {
    return matcher.Matches((*FindSeriesLabel(matcher.label()))(key));
  });
}

bool MatchesAll(absl::Span<const base::LabelMatcher> matchers, const model::RunRow& run) {
  return std::all_of(matchers.begin(), matchers.end(), [&run](const base::LabelMatcher& matcher) {
    if (matcher.label() == "name") return matcher.Matches(run.name());
    const auto label = run.labels().find(matcher.label());
    return matcher.Matches(label == run.labels().end() ? "" : label->second);
  });
}

}  // namespace foreshock::query::internal
