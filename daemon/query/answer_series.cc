#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"
#include "daemon/query/answers.h"
#include "daemon/query/convert.h"
#include "daemon/query/limits.h"
#include "daemon/query/matchers.h"

namespace foreshock::query {

using internal::CheckSeriesLabels;
using internal::LimitOf;
using internal::MatchesAll;
using internal::ParseMatchers;
using internal::ToFilter;
using internal::ToProto;

absl::StatusOr<std::vector<model::SeriesKey>> Answers::Select(
    const v1::SeriesSelector& selector) const {
  FORESHOCK_RETURN_IF_ERROR(FindRun(selector.run()).status());
  FORESHOCK_ASSIGN_OR_RETURN(const store::SeriesFilter filter, ToFilter(selector));
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::SeriesKey> series,
                             store_->Series(selector.run(), filter));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<base::LabelMatcher> matchers,
                             ParseMatchers(selector.matchers()));
  FORESHOCK_RETURN_IF_ERROR(CheckSeriesLabels(matchers));
  const std::string& id = selector.indicator();
  // A store may hold what another version knew, so only an empty answer makes the id suspicious.
  if (series.empty() && !id.empty() && !absl::EndsWith(id, "*") && !model::IsKnownIndicator(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("indicator '", id,
                     "': unknown; allowed are the ids of ListIndicators, train.<scalar>, either "
                     "behind 'eval.', and a prefix ending in '*'"));
  }
  std::erase_if(series,
                [&matchers](const model::SeriesKey& key) { return !MatchesAll(matchers, key); });
  return series;
}

absl::StatusOr<store::StepRange> Answers::Range(const std::string& run,
                                                std::optional<int64_t> first,
                                                std::optional<int64_t> last,
                                                std::optional<uint32_t> attempt) const {
  store::StepRange range;
  range.first = first.value_or(range.first);
  range.last = last.value_or(range.last);
  range.attempt = attempt;
  if (range.first < 0 || range.last < range.first) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps ", range.first, " to ", range.last,
                     ": first_step must be at least 0 and last_step not before it"));
  }
  if (!attempt.has_value()) return range;
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, store_->Attempts(run));
  std::vector<uint32_t> known;
  for (const model::AttemptRow& row : attempts) known.push_back(row.number());
  if (std::find(known.begin(), known.end(), *attempt) == known.end()) {
    return absl::NotFoundError(absl::StrCat("attempt ", *attempt, " of run '", run, "': there are ",
                                            absl::StrJoin(known, ", ")));
  }
  return range;
}

absl::StatusOr<int64_t> Answers::BucketSteps(const std::string& run, const store::StepRange& range,
                                             uint64_t buckets_max) const {
  if (buckets_max == 0) return 1;
  int64_t first = range.last;
  int64_t last = range.first;
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, store_->Attempts(run));
  for (const model::AttemptRow& attempt : attempts) {
    if (!attempt.has_first_step()) continue;
    first = std::max(range.first, std::min(first, attempt.first_step()));
    last = std::min(range.last, std::max(last, attempt.last_step()));
  }
  int64_t steps = 1;
  while (last >= first && static_cast<uint64_t>(last / steps - first / steps) >= buckets_max) {
    steps *= 2;
  }
  return steps;
}

absl::StatusOr<v1::ListSeriesResponse> Answers::ListSeries(
    const v1::ListSeriesRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(const uint64_t limit,
                             LimitOf(request.limit(), kSeriesDefault, kSeriesMax));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::SeriesKey> series,
                             Select(request.selector()));
  v1::ListSeriesResponse response;
  const size_t shown = std::min<size_t>(series.size(), limit);
  for (size_t i = 0; i < shown; ++i) {
    *response.add_series() = ToProto(request.selector().run(), series[i]);
  }
  response.set_truncated(shown < series.size());
  return response;
}

absl::StatusOr<v1::ListStepsResponse> Answers::ListSteps(
    const v1::ListStepsRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(const uint64_t limit,
                             LimitOf(request.limit(), kStepsDefault, kStepsMax));
  FORESHOCK_RETURN_IF_ERROR(FindRun(request.run()).status());
  FORESHOCK_ASSIGN_OR_RETURN(
      const store::StepRange range,
      Range(request.run(),
            request.has_first_step() ? std::optional(request.first_step()) : std::nullopt,
            request.has_last_step() ? std::optional(request.last_step()) : std::nullopt,
            request.has_attempt() ? std::optional(request.attempt()) : std::nullopt));
  v1::ListStepsResponse response;
  FORESHOCK_RETURN_IF_ERROR(store_->Steps(request.run(), range, [&](const model::StepRow& row) {
    *response.add_steps() = ToProto(row);
    return static_cast<uint64_t>(response.steps_size()) < limit;
  }));
  return response;
}

absl::StatusOr<std::unique_ptr<PointStream>> Answers::QueryPoints(
    const v1::QueryPointsRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(const uint64_t limit,
                             LimitOf(request.limit(), kPointsDefault, kPointsMax));
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<model::SeriesKey> series, Select(request.selector()));
  FORESHOCK_ASSIGN_OR_RETURN(
      const store::StepRange range,
      Range(request.selector().run(),
            request.has_first_step() ? std::optional(request.first_step()) : std::nullopt,
            request.has_last_step() ? std::optional(request.last_step()) : std::nullopt,
            request.has_attempt() ? std::optional(request.attempt()) : std::nullopt));
  FORESHOCK_ASSIGN_OR_RETURN(int64_t bucket_steps,
                             BucketSteps(request.selector().run(), range, request.buckets_max()));
  FORESHOCK_ASSIGN_OR_RETURN(const int64_t raw_from,
                             store_->RawFrom(request.selector().run(), range));
  const bool raw = raw_from <= range.first;
  // Of downsampled points only buckets can be had, also where there would be few enough points.
  if (!raw && request.buckets_max() > 0) bucket_steps = std::max<int64_t>(bucket_steps, 2);
  std::optional<int64_t> downsampled;
  if (!raw && bucket_steps == 1) downsampled = raw_from;
  auto stream =
      std::make_unique<PointStream>(store_, PointStream::Query{.run = request.selector().run(),
                                                               .series = std::move(series),
                                                               .range = range,
                                                               .bucket_steps = bucket_steps,
                                                               .limit = limit,
                                                               .downsampled_before = downsampled});
  if (!request.continuation().empty()) {
    FORESHOCK_RETURN_IF_ERROR(stream->ContinueAt(request.continuation()));
  }
  return stream;
}

}  // namespace foreshock::query
