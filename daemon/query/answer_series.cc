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

absl::StatusOr<bool> Answers::PointStream::ReadAhead() {
  if (next_ahead_ < ahead_.size()) return true;
  ahead_.clear();
  next_ahead_ = 0;
  // One more than may be given out, to know whether there is more.
  const uint64_t wanted = std::min<uint64_t>(kPointsReadAhead, left_ + 1);
  while (index_ < series_.size() && ahead_.empty()) {
    // What is left of one series, or all from one on.
    const bool within = next_step_ != range_.first;
    const auto series = absl::MakeConstSpan(series_).subspan(index_, within ? 1 : series_.size());
    StepRange piece = range_;
    piece.first = next_step_;
    bool full = false;
    FORESHOCK_RETURN_IF_ERROR(
        store_->Points(run_, series, piece, [&](size_t i, const Point& point) {
          ahead_.push_back({index_ + i, point});
          full = ahead_.size() == wanted;
          return !full;
        }));
    if (full && ahead_.back().point.step < range_.last) {
      index_ = ahead_.back().series;
      next_step_ = ahead_.back().point.step + 1;
    } else {
      index_ = full ? ahead_.back().series + 1 : index_ + series.size();
      next_step_ = range_.first;
    }
  }
  return !ahead_.empty();
}

absl::StatusOr<std::optional<v1::QueryPointsResponse>> Answers::PointStream::Next() {
  if (ended_) return std::nullopt;
  FORESHOCK_ASSIGN_OR_RETURN(bool more, ReadAhead());
  if (!more) return std::nullopt;
  const size_t series = ahead_[next_ahead_].series;
  v1::QueryPointsResponse response;
  *response.mutable_series() = ToProto(run_, series_[series]);
  while (more && ahead_[next_ahead_].series == series && left_ > 0 &&
         response.points_size() < kPointsPerResponse) {
    ToProto(ahead_[next_ahead_].point, response.add_points());
    ++next_ahead_;
    --left_;
    FORESHOCK_ASSIGN_OR_RETURN(more, ReadAhead());
  }
  if (left_ == 0 && more && ahead_[next_ahead_].series == series) {
    response.set_truncated(true);
    ended_ = true;
  }
  return response;
}

}  // namespace foreshock
