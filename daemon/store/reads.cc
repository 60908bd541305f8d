#include "daemon/store/reads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/buckets.h"
#include "daemon/store/chunk_reader.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/head_reads.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/lineage.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"

namespace foreshock::store {
namespace {

constexpr uint32_t kUnknownSeries = 0;  // no series of points has this id

// Finds their ids, in the same order.
absl::StatusOr<std::vector<uint32_t>> SeriesIds(const ReadView& view, uint32_t run,
                                                absl::Span<const model::SeriesKey> series) {
  std::vector<std::pair<std::string, size_t>> keys;
  keys.reserve(series.size());
  for (size_t i = 0; i < series.size(); ++i) keys.emplace_back(SeriesRowKey(run, series[i]), i);
  std::sort(keys.begin(), keys.end());
  std::vector<uint32_t> ids(series.size(), kUnknownSeries);
  RowIterator rows(view, Family::kRows, KindPrefix(run, RowKind::kSeries));
  bool placed = false;
  for (const auto& [key, i] : keys) {
    // Neighbours cost no seek.
    if (placed && rows.Valid() && rows.key() < key) rows.Next();
    if (!placed || (rows.Valid() && rows.key() < key)) rows.Seek(key);
    placed = true;
    FORESHOCK_RETURN_IF_ERROR(rows.status());
    if (!rows.Valid() || rows.key() != key) continue;
    FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view row, rows.Value());
    if (!DecodeSeriesId(row, &ids[i])) {
      return CorruptRow(FamilyName(Family::kRows), key, "series row", row);
    }
  }
  return ids;
}

// Everything that a read of points looks up before its first point.
struct PointPlan {
  std::vector<uint32_t> ids;
  std::vector<Stretch> stretches;
  std::vector<uint32_t> sorted_ids;        // known ones, each once
  std::vector<OpenRows<ChunkPoint>> open;  // in the order of sorted_ids

  const OpenRows<ChunkPoint>& OpenOf(uint32_t id) const {
    return open[std::lower_bound(sorted_ids.begin(), sorted_ids.end(), id) - sorted_ids.begin()];
  }
};

absl::StatusOr<PointPlan> PlanPoints(const ReadView& view, uint32_t run,
                                     absl::Span<const model::SeriesKey> series,
                                     const StepRange& range) {
  PointPlan plan;
  FORESHOCK_ASSIGN_OR_RETURN(plan.ids, SeriesIds(view, run, series));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(run));
  plan.stretches = Stretches(attempts, range);
  plan.sorted_ids = plan.ids;
  std::sort(plan.sorted_ids.begin(), plan.sorted_ids.end());
  plan.sorted_ids.erase(std::unique(plan.sorted_ids.begin(), plan.sorted_ids.end()),
                        plan.sorted_ids.end());
  if (!plan.sorted_ids.empty() && plan.sorted_ids.front() == kUnknownSeries) {
    plan.sorted_ids.erase(plan.sorted_ids.begin());
  }
  FORESHOCK_ASSIGN_OR_RETURN(plan.open, ReadOpenPoints(view, run, plan.stretches, plan.sorted_ids));
  return plan;
}

using Whole = ChunkReader<PointRows>::Whole;

// Adds a chunk to the buckets without decoding its points, if its parts or its summary allow that.
absl::StatusOr<Whole> AddWhole(const Stretch& stretch, int64_t bucket_steps, absl::string_view key,
                               Window window, absl::string_view bytes, BucketBuilder* buckets) {
  if (KindOf(bytes) == ChunkKind::kDownsampled) {
    std::vector<ChunkSummary> parts;
    if (!DecodeDownsampled(bytes, window.first, &parts)) {
      return CorruptRow(FamilyName(Family::kChunks), key, PointRows::kName, bytes);
    }
    // A part that the stretch cuts belongs to the stretch of its last step.
    for (ChunkSummary& part : parts) {
      if (part.last_step < stretch.first || part.last_step > stretch.last) continue;
      part.first_step = std::max(part.first_step, stretch.first);
      if (!buckets->Add(stretch.attempt, part)) return Whole::kStop;
    }
    return Whole::kTaken;
  }
  ChunkSummary summary;
  if (!DecodeChunkSummary(bytes, window.first, &summary)) {
    return CorruptRow(FamilyName(Family::kChunks), key, PointRows::kName, bytes);
  }
  // Such a large sum may stand for one that overflowed.
  const bool exact = std::fabs(summary.sum) < std::numeric_limits<double>::max();
  const bool inside =
      stretch.first <= summary.first_step && summary.last_step <= stretch.last && exact;
  if (!inside || BucketStart(summary.first_step, bucket_steps) !=
                     BucketStart(summary.last_step, bucket_steps)) {
    return Whole::kDecode;
  }
  return buckets->Add(stretch.attempt, summary) ? Whole::kTaken : Whole::kStop;
}

}  // namespace

absl::Status ReadOpenReports(const ReadView& view, uint32_t run, uint32_t attempt,
                             const std::function<bool(const model::ShardReport&)>& visit) {
  model::ShardReport report;  // reused: its buffers stay
  return view.ScanPrefix(
      Family::kOpen, OpenPrefix(run, attempt),
      [&](absl::string_view key, absl::string_view value) -> absl::StatusOr<bool> {
        FORESHOCK_RETURN_IF_ERROR(ParseRow(Family::kOpen, key, value, &report));
        return visit(report);
      });
}

absl::StatusOr<std::vector<model::SeriesKey>> ReadSeries(const ReadView& view, uint32_t run,
                                                         const SeriesFilter& filter) {
  absl::string_view indicator = filter.indicator;
  if (!indicator.empty() && indicator.back() == '*') indicator.remove_suffix(1);
  std::vector<model::SeriesKey> keys;
  FORESHOCK_RETURN_IF_ERROR(
      view.ScanPrefix(Family::kRows, SeriesPrefix(run, indicator),
                      [&](absl::string_view key, absl::string_view value) -> absl::StatusOr<bool> {
                        model::SeriesKey series;
                        uint32_t run_of_key = 0;
                        if (!DecodeSeriesRowKey(key, &run_of_key, &series)) {
                          return CorruptRow(FamilyName(Family::kRows), key, "series row", value);
                        }
                        if (filter.Matches(series)) keys.push_back(std::move(series));
                        return true;
                      }));
  return keys;
}

absl::Status ReadPoints(const ReadView& view, uint32_t run,
                        absl::Span<const model::SeriesKey> series, const StepRange& range,
                        const std::function<bool(size_t, const model::Point&)>& visit) {
  FORESHOCK_ASSIGN_OR_RETURN(const PointPlan plan, PlanPoints(view, run, series, range));
  ChunkReader<PointRows> reader(view, run);
  for (size_t i = 0; i < series.size(); ++i) {
    if (plan.ids[i] == kUnknownSeries) continue;
    const OpenRows<ChunkPoint>& open = plan.OpenOf(plan.ids[i]);
    for (size_t s = 0; s < plan.stretches.size(); ++s) {
      const Stretch& stretch = plan.stretches[s];
      FORESHOCK_ASSIGN_OR_RETURN(
          const bool more, reader.Read(plan.ids[i], stretch, open[s], [&](const ChunkPoint& point) {
            return visit(i, {stretch.attempt, point.step, point.value, point.flags});
          }));
      if (!more) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::Status ReadBuckets(const ReadView& view, uint32_t run,
                         absl::Span<const model::SeriesKey> series, const StepRange& range,
                         int64_t bucket_steps,
                         const std::function<bool(size_t, const Bucket&)>& visit) {
  FORESHOCK_ASSIGN_OR_RETURN(const PointPlan plan, PlanPoints(view, run, series, range));
  ChunkReader<PointRows> reader(view, run);
  for (size_t i = 0; i < series.size(); ++i) {
    if (plan.ids[i] == kUnknownSeries) continue;
    const auto visit_bucket = [&](const Bucket& bucket) { return visit(i, bucket); };
    BucketBuilder buckets(bucket_steps, visit_bucket);
    const OpenRows<ChunkPoint>& open = plan.OpenOf(plan.ids[i]);
    for (size_t s = 0; s < plan.stretches.size(); ++s) {
      const Stretch& stretch = plan.stretches[s];
      const auto add_point = [&](const ChunkPoint& point) {
        return buckets.Add({stretch.attempt, point.step, point.value, point.flags});
      };
      const auto add_whole = [&](absl::string_view key, Window window, absl::string_view bytes) {
        return AddWhole(stretch, bucket_steps, key, window, bytes, &buckets);
      };
      FORESHOCK_ASSIGN_OR_RETURN(const bool more,
                                 reader.Read(plan.ids[i], stretch, open[s], add_point, add_whole));
      if (!more) return absl::OkStatus();
    }
    if (!buckets.Finish()) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status ReadSteps(const ReadView& view, uint32_t run, const StepRange& range,
                       const std::function<bool(const model::StepRow&)>& visit) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(run));
  const std::vector<Stretch> stretches = Stretches(attempts, range);
  FORESHOCK_ASSIGN_OR_RETURN(const OpenRows<model::StepRow> open,
                             ReadOpenSteps(view, run, stretches));
  ChunkReader<StepRows> reader(view, run);
  for (size_t s = 0; s < stretches.size(); ++s) {
    FORESHOCK_ASSIGN_OR_RETURN(const bool more, reader.Read(kStepTable, stretches[s], open[s],
                                                            [&](const model::StepRow& stored) {
                                                              model::StepRow row = stored;
                                                              row.attempt = stretches[s].attempt;
                                                              return visit(row);
                                                            }));
    if (!more) return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace foreshock::store
