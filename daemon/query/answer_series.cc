#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"
#include "daemon/query/answers.h"
#include "daemon/query/convert.h"
#include "daemon/query/limits.h"

namespace foreshock {

using query_internal::LimitOf;
using query_internal::ToFilter;
using query_internal::ToProto;

absl::StatusOr<std::vector<SeriesKey>> Answers::Select(const v1::SeriesSelector& selector) const {
  FORESHOCK_RETURN_IF_ERROR(FindRun(selector.run()).status());
  FORESHOCK_ASSIGN_OR_RETURN(const SeriesFilter filter, ToFilter(selector));
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<SeriesKey> series, store_->Series(selector.run(), filter));
  const std::string& id = selector.indicator();
  // A store may hold what another version knew, so only an empty answer makes the id suspicious.
  if (series.empty() && !id.empty() && !absl::EndsWith(id, "*") && !IsKnownIndicator(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("indicator '", id,
                     "': unknown; allowed are the ids of ListIndicators, train.<scalar>, either "
                     "behind 'eval.', and a prefix ending in '*'"));
  }
  return series;
}

absl::StatusOr<StepRange> Answers::Range(const std::string& run, std::optional<int64_t> first,
                                         std::optional<int64_t> last,
                                         std::optional<uint32_t> attempt) const {
  StepRange range;
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

absl::StatusOr<v1::ListSeriesResponse> Answers::ListSeries(
    const v1::ListSeriesRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(const uint64_t limit,
                             LimitOf(request.limit(), kSeriesDefault, kSeriesMax));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<SeriesKey> series, Select(request.selector()));
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
      const StepRange range,
      Range(request.run(),
            request.has_first_step() ? std::optional(request.first_step()) : std::nullopt,
            request.has_last_step() ? std::optional(request.last_step()) : std::nullopt,
            request.has_attempt() ? std::optional(request.attempt()) : std::nullopt));
  v1::ListStepsResponse response;
  FORESHOCK_RETURN_IF_ERROR(store_->Steps(request.run(), range, [&](const StepRow& row) {
    *response.add_steps() = ToProto(row);
    return static_cast<uint64_t>(response.steps_size()) < limit;
  }));
  return response;
}

absl::StatusOr<std::unique_ptr<Answers::PointStream>> Answers::QueryPoints(
    const v1::QueryPointsRequest& request) const {
  FORESHOCK_ASSIGN_OR_RETURN(const uint64_t limit,
                             LimitOf(request.limit(), kPointsDefault, kPointsMax));
  FORESHOCK_ASSIGN_OR_RETURN(std::vector<SeriesKey> series, Select(request.selector()));
  FORESHOCK_ASSIGN_OR_RETURN(
      const StepRange range,
      Range(request.selector().run(),
            request.has_first_step() ? std::optional(request.first_step()) : std::nullopt,
            request.has_last_step() ? std::optional(request.last_step()) : std::nullopt,
            request.has_attempt() ? std::optional(request.attempt()) : std::nullopt));
  return std::unique_ptr<PointStream>(
      new PointStream(store_, request.selector().run(), std::move(series), range, limit));
}

Answers::PointStream::PointStream(const Store* store, std::string run,
                                  std::vector<SeriesKey> series, StepRange range, uint64_t limit)
    : store_(store),
      run_(std::move(run)),
      series_(std::move(series)),
      range_(range),
      left_(limit),
      next_step_(range.first) {}

absl::StatusOr<std::optional<v1::QueryPointsResponse>> Answers::PointStream::Next() {
  while (!ended_ && index_ < series_.size()) {
    const SeriesKey& key = series_[index_];
    const uint64_t wanted = std::min<uint64_t>(kPointsPerResponse, left_);
    v1::QueryPointsResponse response;
    bool more = false;
    StepRange piece = range_;
    piece.first = next_step_;
    FORESHOCK_RETURN_IF_ERROR(store_->Points(run_, key, piece, [&](const Point& point) {
      if (static_cast<uint64_t>(response.points_size()) == wanted) {
        more = true;
        return false;
      }
      ToProto(point, response.add_points());
      return true;
    }));
    const auto got = static_cast<uint64_t>(response.points_size());
    left_ -= got;
    if (more && left_ == 0) {
      response.set_truncated(true);
      ended_ = true;
    }
    if (more && got > 0) {
      next_step_ = response.points().rbegin()->step() + 1;
    } else {
      ++index_;
      next_step_ = range_.first;
    }
    if (got == 0 && !response.truncated()) continue;  // no points in the range
    *response.mutable_series() = ToProto(run_, key);
    return response;
  }
  return std::nullopt;
}

}  // namespace foreshock
