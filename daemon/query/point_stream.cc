#include "daemon/query/point_stream.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "daemon/base/status_macros.h"
#include "daemon/query/convert.h"

namespace foreshock::query {

using internal::ToProto;

PointStream::PointStream(const store::Store* store, Query query)
    : store_(store),
      query_(std::move(query)),
      left_(query_.limit),
      next_step_(query_.range.first) {}

// "step,layer,unit,unit id,indicator,unit name": by key and not by place, for series may come in
// between. Only the name may hold a comma.
std::string PointStream::Continuation() const {
  const model::SeriesKey& key = query_.series[index_];
  return absl::StrCat(next_step_, ",", key.layer, ",", static_cast<int>(key.unit), ",", key.unit_id,
                      ",", key.indicator, ",", key.unit_name);
}

absl::Status PointStream::ContinueAt(absl::string_view continuation) {
  const std::vector<std::string> parts = absl::StrSplit(continuation, absl::MaxSplits(',', 5));
  model::SeriesKey key;
  int64_t step = 0;
  uint32_t unit = 0;
  if (parts.size() != 6 || !absl::SimpleAtoi(parts[0], &step) ||
      !absl::SimpleAtoi(parts[1], &key.layer) || !absl::SimpleAtoi(parts[2], &unit) ||
      !absl::SimpleAtoi(parts[3], &key.unit_id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("continuation '", continuation,
                     "': only what a truncated answer to the same request gave is allowed"));
  }
  key.unit = static_cast<model::Unit>(unit);
  key.indicator = parts[4];
  key.unit_name = parts[5];
  const auto found = std::lower_bound(query_.series.begin(), query_.series.end(), key);
  index_ = static_cast<size_t>(found - query_.series.begin());
  if (found != query_.series.end() && *found == key) next_step_ = std::max(next_step_, step);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::QueryPointsResponse>> PointStream::Next() {
  while (ready_.empty() && !ended_ && index_ < query_.series.size()) {
    FORESHOCK_RETURN_IF_ERROR(Read());
  }
  if (ready_.empty()) {
    if (answered_ || query_.series.empty() || !query_.downsampled_before.has_value()) {
      return std::nullopt;
    }
    ResponseFor(query_.series.front());
  }
  v1::QueryPointsResponse response = std::move(ready_.front());
  ready_.pop_front();
  return response;
}

v1::QueryPointsResponse& PointStream::ResponseFor(const model::SeriesKey& key) {
  v1::QueryPointsResponse& response = ready_.emplace_back();
  *response.mutable_series() = ToProto(query_.run, key);
  response.set_bucket_steps(static_cast<uint64_t>(query_.bucket_steps));
  if (query_.downsampled_before.has_value()) {
    response.set_downsampled_before_step(*query_.downsampled_before);
  }
  answered_ = true;
  return response;
}

absl::Status PointStream::Read() {
  const uint64_t wanted = std::min(kRowsPerRead, left_);
  // A series that was begun is read to its end by itself: the others start elsewhere.
  const bool begun = next_step_ > query_.range.first;
  const auto series =
      absl::MakeConstSpan(query_.series).subspan(index_, begun ? 1 : kSeriesPerRead);
  const size_t base = index_;
  store::StepRange range = query_.range;
  range.first = next_step_;
  uint64_t rows = 0;
  std::optional<size_t> last;  // series of the newest response
  bool more = false;
  // Where the next row goes; nullptr when it must wait for the next read.
  const auto row_of = [&](size_t i, int64_t step) -> v1::QueryPointsResponse* {
    if (rows == wanted) {
      more = true;
      index_ = base + i;
      next_step_ = last == i || begun ? step : query_.range.first;
      return nullptr;
    }
    const bool full =
        !ready_.empty() &&
        ready_.back().points_size() + ready_.back().buckets_size() == kRowsPerResponse;
    if (last != i || full) ResponseFor(series[i]);
    last = i;
    ++rows;
    return &ready_.back();
  };

  if (query_.bucket_steps == 1) {
    FORESHOCK_RETURN_IF_ERROR(
        store_->Points(query_.run, series, range, [&](size_t i, const model::Point& point) {
          v1::QueryPointsResponse* response = row_of(i, point.step);
          if (response != nullptr) ToProto(point, response->add_points());
          return response != nullptr;
        }));
  } else {
    FORESHOCK_RETURN_IF_ERROR(store_->Buckets(
        query_.run, series, range, query_.bucket_steps, [&](size_t i, const store::Bucket& bucket) {
          v1::QueryPointsResponse* response = row_of(i, bucket.first_step);
          if (response != nullptr) ToProto(bucket, response->add_buckets());
          return response != nullptr;
        }));
  }
  left_ -= rows;
  if (!more) {
    index_ += series.size();
    next_step_ = query_.range.first;
  } else if (left_ == 0) {
    if (last != index_ - base) ResponseFor(query_.series[index_]);
    ready_.back().set_truncated(true);
    ready_.back().set_continuation(Continuation());
    ended_ = true;
  }
  return absl::OkStatus();
}

}  // namespace foreshock::query
