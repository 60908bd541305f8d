// Conditions of requests on the labels of runs and series. Internal to query/.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/base/label_matcher.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/series.h"
#include "google/protobuf/repeated_field.h"

namespace foreshock::query::internal {

absl::StatusOr<std::vector<base::LabelMatcher>> ParseMatchers(
    const google::protobuf::RepeatedPtrField<std::string>& texts);

// InvalidArgument, naming what is allowed, for a label that no series has.
absl::Status CheckSeriesLabels(absl::Span<const base::LabelMatcher> matchers);
bool MatchesAll(absl::Span<const base::LabelMatcher> matchers, const model::SeriesKey& key);

// The run's labels and `name`.
bool MatchesAll(absl::Span<const base::LabelMatcher> matchers, const model::RunRow& run);

}  // namespace foreshock::query::internal
