#include "tests/support/memory_store.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/mutex.h"
#include "daemon/base/status_macros.h"
#include "daemon/model/catalogue.h"
#include "daemon/store/buckets.h"
#include "daemon/store/lineage.h"
#include "daemon/store/read_view.h"
#include "daemon/store/row_codec.h"

namespace foreshock::support {
namespace {

using store::Stretch;

// Everything of one run, in the order in which it is read.
struct RunData {
  // (attempt, step, rank, client instance, seq)
  using ReportId = std::tuple<uint32_t, int64_t, uint32_t, std::string, uint64_t>;
  // (step, attempt, kind, name, detail)
  using EventId = std::tuple<int64_t, uint32_t, int, std::string, std::string>;

  model::RunRow row;
  std::map<uint32_t, model::AttemptRow> attempts;
  std::map<std::tuple<uint32_t, uint32_t, std::string>, model::RankRow> ranks;
  std::map<ReportId, model::ShardReport> reports;
  std::map<std::pair<uint32_t, int64_t>, model::StepRow> steps;
  std::map<model::SeriesKey, std::map<std::pair<uint32_t, int64_t>, model::Point>> points;
  std::map<std::string, model::AlertRow> alerts;
  std::map<EventId, model::EventRow> events;
  std::map<std::pair<uint32_t, uint32_t>, model::CoactivationRow> coactivation;
  std::optional<model::JudgingRow> judging;
};

template <typename Map>
auto Values(const Map& map) {
  std::vector<typename Map::mapped_type> values;
  for (const auto& [key, value] : map) values.push_back(value);
  return values;
}

// The rows whose key starts with `attempt`.
template <typename Map>
auto ValuesOfAttempt(const Map& map, uint32_t attempt) {
  std::vector<typename Map::mapped_type> values;
  for (const auto& [key, value] : map) {
    if (std::get<0>(key) == attempt) values.push_back(value);
  }
  return values;
}

// Rows keyed by (attempt, step), as a range is read.
template <typename Row>
std::vector<Row> RowsOf(const std::map<std::pair<uint32_t, int64_t>, Row>& rows,
                        const std::vector<Stretch>& stretches) {
  std::vector<Row> found;
  for (const Stretch& stretch : stretches) {
    const auto end = rows.upper_bound({stretch.attempt, stretch.last});
    for (auto it = rows.lower_bound({stretch.attempt, stretch.first}); it != end; ++it) {
      found.push_back(it->second);
    }
  }
  return found;
}

template <typename Row>
void VisitAll(const std::vector<Row>& rows, const std::function<bool(const Row&)>& visit) {
  for (const Row& row : rows) {
    if (!visit(row)) return;
  }
}

store::Bucket BucketOf(int64_t start, const std::vector<model::Point>& points) {
  store::Bucket bucket{.first_step = start, .count = points.size()};
  bucket.min = bucket.max = points.front().value;
  long double sum = 0;
  for (const model::Point& point : points) {
    bucket.min = std::min(bucket.min, point.value);
    bucket.max = std::max(bucket.max, point.value);
    sum += point.value;
    bucket.flags |= point.flags;
  }
  bucket.mean = std::clamp(static_cast<double>(sum / static_cast<long double>(points.size())),
                           bucket.min, bucket.max);
  bucket.last = points.back().value;
  bucket.last_step = points.back().step;
  bucket.attempt = points.back().attempt;
  return bucket;
}

// What comes back out of a stored point.
model::Point Stored(const model::Sample& sample, const model::StepRow& step) {
  return {step.attempt, step.step,
          store::Kept(model::StorageOf(sample.series.indicator), sample.value), sample.flags};
}

class MemoryStore final : public store::Store {
 public:
  absl::Status Write(const store::StoreBatch& batch) override {
    FORESHOCK_RETURN_IF_ERROR(Check(batch));
    if (batch.empty()) return absl::OkStatus();
    base::MutexLock lock(&mutex_);
    Apply(batch);
    ++batches_written_;
    return absl::OkStatus();
  }

  absl::Status Sync() override { return absl::OkStatus(); }

  absl::StatusOr<std::vector<model::RunRow>> Runs() const override {
    base::MutexLock lock(&mutex_);
    std::vector<model::RunRow> rows;
    for (const auto& [name, run] : runs_) rows.push_back(run.row);
    return rows;
  }

  absl::StatusOr<model::RunRow> Run(const std::string& run) const override {
    return Read<model::RunRow>(run, [](const RunData& data) { return data.row; });
  }

  absl::StatusOr<std::vector<model::AttemptRow>> Attempts(const std::string& run) const override {
    return Read<std::vector<model::AttemptRow>>(
        run, [](const RunData& data) { return Values(data.attempts); });
  }

  absl::StatusOr<std::vector<model::RankRow>> Ranks(const std::string& run,
                                                    uint32_t attempt) const override {
    return Read<std::vector<model::RankRow>>(
        run, [attempt](const RunData& data) { return ValuesOfAttempt(data.ranks, attempt); });
  }

  absl::Status OpenReports(
      const std::string& run, uint32_t attempt,
      const std::function<bool(const model::ShardReport&)>& visit) const override {
    FORESHOCK_ASSIGN_OR_RETURN(
        const std::vector<model::ShardReport> reports,
        Read<std::vector<model::ShardReport>>(run, [attempt](const RunData& data) {
          return ValuesOfAttempt(data.reports, attempt);
        }));
    VisitAll(reports, visit);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<model::AlertRow>> Alerts(const std::string& run) const override {
    return Read<std::vector<model::AlertRow>>(
        run, [](const RunData& data) { return Values(data.alerts); });
  }

  absl::StatusOr<std::vector<model::EventRow>> Events(const std::string& run) const override {
    return Read<std::vector<model::EventRow>>(
        run, [](const RunData& data) { return Values(data.events); });
  }

  absl::StatusOr<std::vector<model::CoactivationRow>> Coactivation(
      const std::string& run, uint32_t attempt) const override {
    return Read<std::vector<model::CoactivationRow>>(run, [attempt](const RunData& data) {
      return ValuesOfAttempt(data.coactivation, attempt);
    });
  }

  absl::StatusOr<std::optional<model::JudgingRow>> Judging(const std::string& run) const override {
    return Read<std::optional<model::JudgingRow>>(run,
                                                  [](const RunData& data) { return data.judging; });
  }

  absl::StatusOr<model::SilencesRow> Silences() const override {
    base::MutexLock lock(&mutex_);
    return silences_;
  }

  absl::StatusOr<std::vector<model::SeriesKey>> Series(
      const std::string& run, const store::SeriesFilter& filter) const override {
    return Read<std::vector<model::SeriesKey>>(run, [&filter](const RunData& data) {
      std::vector<model::SeriesKey> keys;
      for (const auto& [key, points] : data.points) {
        if (filter.Matches(key)) keys.push_back(key);
      }
      return keys;
    });
  }

  absl::Status Points(
      const std::string& run, absl::Span<const model::SeriesKey> series,
      const store::StepRange& range,
      const std::function<bool(size_t, const model::Point&)>& visit) const override {
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<std::vector<model::Point>> points,
                               PointsOf(run, series, range));
    for (size_t i = 0; i < points.size(); ++i) {
      for (const model::Point& point : points[i]) {
        if (!visit(i, point)) return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::Status Buckets(
      const std::string& run, absl::Span<const model::SeriesKey> series,
      const store::StepRange& range, int64_t bucket_steps,
      const std::function<bool(size_t, const store::Bucket&)>& visit) const override {
    FORESHOCK_RETURN_IF_ERROR(store::CheckBucketSteps(bucket_steps));
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<std::vector<model::Point>> points,
                               PointsOf(run, series, range));
    for (size_t i = 0; i < points.size(); ++i) {
      std::map<int64_t, std::vector<model::Point>> by_bucket;
      for (const model::Point& point : points[i]) {
        by_bucket[store::BucketStart(point.step, bucket_steps)].push_back(point);
      }
      for (const auto& [start, inside] : by_bucket) {
        if (!visit(i, BucketOf(start, inside))) return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> RawFrom(const std::string& run,
                                  const store::StepRange& range) const override {
    FORESHOCK_RETURN_IF_ERROR(Run(run).status());
    return range.first;
  }

  absl::Status Steps(const std::string& run, const store::StepRange& range,
                     const std::function<bool(const model::StepRow&)>& visit) const override {
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::StepRow> steps,
                               Read<std::vector<model::StepRow>>(run, [&](const RunData& data) {
                                 return RowsOf(data.steps,
                                               store::Stretches(Values(data.attempts), range));
                               }));
    VisitAll(steps, visit);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> DeleteRun(const std::string& run) override {
    FORESHOCK_ASSIGN_OR_RETURN(const uint64_t series, Read<uint64_t>(run, [](const RunData& data) {
                                 return data.points.size();
                               }));
    base::MutexLock lock(&mutex_);
    runs_.erase(run);
    return series;
  }

  absl::Status Fold(const std::string& run) override { return Run(run).status(); }

  store::StoreStats Stats() const override {
    base::MutexLock lock(&mutex_);
    store::StoreStats stats;
    for (const auto& [name, run] : runs_) stats.series += run.points.size();
    stats.points_written = points_written_;
    stats.batches_written = batches_written_;
    return stats;
  }

 private:
  static absl::Status Check(const store::StoreBatch& batch) {
    for (const model::ClosedStep& step : batch.steps) {
      for (const model::Sample& sample : step.samples) {
        FORESHOCK_RETURN_IF_ERROR(store::CheckPoint(step, sample));
      }
    }
    return absl::OkStatus();
  }

  // A copy of what `read` finds, so that callbacks run without the lock.
  template <typename T, typename F>
  absl::StatusOr<T> Read(const std::string& run, F read) const {
    base::MutexLock lock(&mutex_);
    const auto found = runs_.find(run);
    if (found != runs_.end()) return T(read(found->second));
    std::vector<std::string> names;
    for (const auto& [name, data] : runs_) names.push_back(name);
    return store::NoSuchRun(run, names);
  }

  // In the order of `series`, each in step order.
  absl::StatusOr<std::vector<std::vector<model::Point>>> PointsOf(
      const std::string& run, absl::Span<const model::SeriesKey> series,
      const store::StepRange& range) const {
    using Found = std::vector<std::vector<model::Point>>;
    return Read<Found>(run, [&](const RunData& data) {
      const std::vector<Stretch> stretches = store::Stretches(Values(data.attempts), range);
      Found points;
      for (const model::SeriesKey& key : series) {
        const auto found = data.points.find(key);
        points.push_back(found == data.points.end() ? std::vector<model::Point>()
                                                    : RowsOf(found->second, stretches));
      }
      return points;
    });
  }

  RunData& RunOf(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RunData& run = runs_[name];
    run.row.set_name(name);
    return run;
  }

  void Apply(const store::StoreBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const model::RunRow& row : batch.runs) RunOf(row.name()).row = row;
    for (const auto& [run, row] : batch.attempts) RunOf(run).attempts[row.number()] = row;
    for (const auto& [run, attempt, row] : batch.ranks) {
      RunOf(run).ranks[{attempt, row.rank(), row.client_instance()}] = row;
    }
    for (const auto& [run, attempt, row] : batch.reports) {
      RunOf(run).reports[{attempt, row.step(), row.rank(), row.client_instance(), row.seq()}] = row;
    }
    for (const auto& [run, attempt, settled] : batch.settled_steps) {
      auto& reports = RunOf(run).reports;
      for (auto it = reports.begin(); it != reports.end();) {
        const bool gone = std::get<0>(it->first) == attempt && std::get<1>(it->first) <= settled;
        it = gone ? reports.erase(it) : std::next(it);
      }
    }
    for (const model::ClosedStep& step : batch.steps) {
      RunData& run = RunOf(step.run);
      const std::pair<uint32_t, int64_t> key(step.row.attempt, step.row.step);
      run.steps[key] = step.row;
      for (const model::Sample& sample : step.samples) {
        run.points[sample.series][key] = Stored(sample, step.row);
      }
      points_written_ += step.samples.size();
    }
    for (const auto& [run, row] : batch.alerts) RunOf(run).alerts[row.alert().id()] = row;
    for (const auto& [run, row] : batch.events) {
      const v1::Event& event = row.event();
      RunOf(run).events[{event.step(), row.attempt(), event.kind(), event.name(), event.detail()}] =
          row;
    }
    for (const auto& [run, attempt, row] : batch.coactivation) {
      RunOf(run).coactivation[{attempt, row.layer()}] = row;
    }
    for (const auto& [run, row] : batch.judging) RunOf(run).judging = row;
    if (batch.silences.has_value()) silences_ = *batch.silences;
  }

  mutable base::Mutex mutex_;
  std::map<std::string, RunData> runs_ ABSL_GUARDED_BY(mutex_);
  model::SilencesRow silences_ ABSL_GUARDED_BY(mutex_);
  uint64_t points_written_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t batches_written_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<store::Store> NewMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace foreshock::support
