#include "daemon/store/rocks_store.h"

#include <atomic>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/mutex.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/batch_writer.h"
#include "daemon/store/database.h"
#include "daemon/store/directory.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/lineage.h"
#include "daemon/store/read_view.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "rocksdb/convenience.h"

namespace foreshock {
namespace store {
namespace {

// Free room that makes a reopen worth trying: it writes a manifest, an options file and a new log.
constexpr uint64_t kReopenBytes = 1u << 20;

// All rows with a prefix, each parsed as Row.
template <typename Row>
absl::StatusOr<std::vector<Row>> ReadRows(const ReadView& view, const std::string& prefix) {
  std::vector<Row> rows;
  FORESHOCK_RETURN_IF_ERROR(view.ScanPrefix(
      Family::kRows, prefix,
      [&rows](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
        FORESHOCK_RETURN_IF_ERROR(ParseRow(Family::kRows, key, value, &rows.emplace_back()));
        return true;
      }));
  return rows;
}

class RocksStore final : public Store {
 public:
  RocksStore(const StoreOptions& options, rocksdb::Env* env, std::unique_ptr<Database> database)
      : options_(options), env_(env), holder_(options, env, std::move(database)) {}

  // Reads what the writer must know.
  absl::Status Load() {
    MutexLock lock(&writer_mutex_);
    return LoadLocked();
  }

  absl::Status Write(const StoreBatch& batch) override;
  absl::Status Sync() override;

  absl::StatusOr<std::vector<model::RunRow>> Runs() const override;
  absl::StatusOr<model::RunRow> Run(const std::string& run) const override;
  absl::StatusOr<std::vector<model::AttemptRow>> Attempts(const std::string& run) const override;
  absl::StatusOr<std::vector<model::RankRow>> Ranks(const std::string& run,
                                                    uint32_t attempt) const override;
  absl::Status OpenReports(
      const std::string& run, uint32_t attempt,
      const std::function<bool(const model::ShardReport&)>& visit) const override;
  absl::StatusOr<std::vector<model::AlertRow>> Alerts(const std::string& run) const override;
  absl::StatusOr<std::vector<model::EventRow>> Events(const std::string& run) const override;
  absl::StatusOr<std::vector<model::CoactivationRow>> Coactivation(const std::string& run,
                                                                   uint32_t attempt) const override;
  absl::StatusOr<model::SilencesRow> Silences() const override;

  absl::StatusOr<std::vector<SeriesKey>> Series(const std::string& run,
                                                const SeriesFilter& filter) const override;
  absl::Status Points(const std::string& run, const SeriesKey& series, const StepRange& range,
                      const std::function<bool(const Point&)>& visit) const override;
  absl::Status Steps(const std::string& run, const StepRange& range,
                     const std::function<bool(const StepRow&)>& visit) const override;

  absl::StatusOr<uint64_t> DeleteRun(const std::string& run) override;

  StoreStats Stats() const override;

 private:
  absl::Status LoadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Before a write: not read-only, and open again after a failed one.
  absl::Status MakeWritable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Writes all or nothing, and remembers that a reopen is due after a failure.
  absl::Status Commit(const Database& database, rocksdb::WriteBatch* batch, bool sync)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Hands the space of a deleted run back to the file system.
  absl::Status Reclaim(uint32_t run);

  const StoreOptions options_;
  rocksdb::Env* const env_;
  DatabaseHolder holder_;

  // Held over a write: there is one writer at a time. Never taken by a read.
  Mutex writer_mutex_;
  BatchWriter writer_ ABSL_GUARDED_BY(writer_mutex_);

  std::atomic<bool> writable_{true};
  std::atomic<uint64_t> series_{0};
  std::atomic<uint64_t> points_written_{0};
  std::atomic<uint64_t> batches_written_{0};
};

absl::Status RocksStore::LoadLocked() {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_RETURN_IF_ERROR(writer_.Load(view));
  series_ = writer_.series();
  return absl::OkStatus();
}

absl::Status RocksStore::MakeWritable() {
  if (options_.read_only) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: ", options_.directory, " is open for reading only"));
  }
  if (writable_) return absl::OkStatus();
  FORESHOCK_RETURN_IF_ERROR(ProbeWrite(options_.directory, kReopenBytes));
  FORESHOCK_RETURN_IF_ERROR(holder_.Reopen());
  FORESHOCK_RETURN_IF_ERROR(LoadLocked());
  LogInfo("store", "writable again", {{"directory", options_.directory}});
  writable_ = true;
  return absl::OkStatus();
}

absl::Status RocksStore::Commit(const Database& database, rocksdb::WriteBatch* batch, bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status written = database.db()->Write(options, batch);
  if (written.ok()) return absl::OkStatus();
  writable_ = false;
  return FromRocks(written, absl::StrCat("store: cannot write to ", options_.directory));
}

absl::Status RocksStore::Write(const StoreBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  MutexLock lock(&writer_mutex_);
  FORESHOCK_RETURN_IF_ERROR(MakeWritable());
  absl::Status status;
  {
    FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    rocksdb::WriteBatch rows;
    status = writer_.Append(batch, *lease, view, &rows);
    if (status.ok()) status = Commit(*lease, &rows, /*sync=*/false);
  }
  if (!status.ok()) {
    // Ids that were handed out for this batch do not exist.
    if (const absl::Status loaded = LoadLocked(); !loaded.ok()) {
      writable_ = false;
      LogError("store", "reading ids failed", {{"error", loaded.ToString()}});
    }
    return status;
  }
  series_ = writer_.series();
  ++batches_written_;
  for (const ClosedStep& step : batch.steps) points_written_ += step.samples.size();
  return absl::OkStatus();
}

absl::Status RocksStore::Sync() {
  if (options_.read_only) return absl::OkStatus();
  const absl::Status synced = SyncLogs(options_.directory, env_);
  // What the kernel has dropped after a failed sync is only found by reading the log again.
  if (!synced.ok()) writable_ = false;
  return synced;
}

absl::StatusOr<std::vector<model::RunRow>> RocksStore::Runs() const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  std::vector<model::RunRow> rows;
  FORESHOCK_RETURN_IF_ERROR(view.ScanPrefix(
      Family::kRows, KindPrefix(kStoreRun, RowKind::kRun),
      [&rows](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
        uint32_t id = 0;
        if (!DecodeRun(value, &id, &rows.emplace_back())) {
          return CorruptRow(FamilyName(Family::kRows), key, "run row", value);
        }
        return true;
      }));
  return rows;
}

absl::StatusOr<model::RunRow> RocksStore::Run(const std::string& run) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_RETURN_IF_ERROR(view.RunId(run).status());
  const std::string key = RunKey(run);
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<std::string> value, view.Get(Family::kRows, key));
  uint32_t id = 0;
  model::RunRow row;
  if (!value.has_value() || !DecodeRun(*value, &id, &row)) {
    return CorruptRow(FamilyName(Family::kRows), key, "run row", value.value_or(""));
  }
  return row;
}

absl::StatusOr<std::vector<model::AttemptRow>> RocksStore::Attempts(const std::string& run) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  return view.Attempts(id);
}

absl::StatusOr<std::vector<model::RankRow>> RocksStore::Ranks(const std::string& run,
                                                              uint32_t attempt) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  return ReadRows<model::RankRow>(view, KindPrefix(id, RowKind::kRank, attempt));
}

absl::Status RocksStore::OpenReports(
    const std::string& run, uint32_t attempt,
    const std::function<bool(const model::ShardReport&)>& visit) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  model::ShardReport report;  // reused: its buffers stay
  return view.ScanPrefix(Family::kOpen, OpenPrefix(id, attempt),
                         [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
                           FORESHOCK_RETURN_IF_ERROR(ParseRow(Family::kOpen, key, value, &report));
                           return visit(report);
                         });
}

absl::StatusOr<std::vector<model::AlertRow>> RocksStore::Alerts(const std::string& run) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  return ReadRows<model::AlertRow>(view, KindPrefix(id, RowKind::kAlert));
}

absl::StatusOr<std::vector<model::EventRow>> RocksStore::Events(const std::string& run) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  return ReadRows<model::EventRow>(view, KindPrefix(id, RowKind::kEvent));
}

absl::StatusOr<std::vector<model::CoactivationRow>> RocksStore::Coactivation(
    const std::string& run, uint32_t attempt) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  return ReadRows<model::CoactivationRow>(view, KindPrefix(id, RowKind::kCoactivation, attempt));
}

absl::StatusOr<model::SilencesRow> RocksStore::Silences() const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::SilencesRow> rows,
                             ReadRows<model::SilencesRow>(view, SilencesKey()));
  return rows.empty() ? model::SilencesRow() : rows.front();
}

absl::StatusOr<std::vector<SeriesKey>> RocksStore::Series(const std::string& run,
                                                          const SeriesFilter& filter) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  std::string_view indicator = filter.indicator;
  if (!indicator.empty() && indicator.back() == '*') indicator.remove_suffix(1);
  std::vector<SeriesKey> keys;
  FORESHOCK_RETURN_IF_ERROR(
      view.ScanPrefix(Family::kRows, SeriesPrefix(id, indicator),
                      [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
                        SeriesKey series;
                        uint32_t run_of_key = 0;
                        if (!DecodeSeriesRowKey(key, &run_of_key, &series)) {
                          return CorruptRow(FamilyName(Family::kRows), key, "series row", value);
                        }
                        if (filter.Matches(series)) keys.push_back(std::move(series));
                        return true;
                      }));
  return keys;
}

absl::Status RocksStore::Points(const std::string& run, const SeriesKey& series,
                                const StepRange& range,
                                const std::function<bool(const Point&)>& visit) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t run_id, view.RunId(run));
  const std::string series_key = SeriesRowKey(run_id, series);
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<std::string> series_row,
                             view.Get(Family::kRows, series_key));
  if (!series_row.has_value()) return absl::OkStatus();
  uint32_t id = 0;
  if (!DecodeSeriesId(*series_row, &id)) {
    return CorruptRow(FamilyName(Family::kRows), series_key, "series row", *series_row);
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(run_id));
  bool more = true;
  for (const Stretch& stretch : Stretches(attempts, range)) {
    FORESHOCK_RETURN_IF_ERROR(view.Scan(
        Family::kPoints, PointKey({run_id, id, stretch.attempt, stretch.first}),
        PrefixEnd(PointKey({run_id, id, stretch.attempt, stretch.last})),
        [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
          PointId point_id;
          Point point;
          if (!DecodePointKey(key, &point_id) || !DecodePoint(value, &point.value, &point.flags)) {
            return CorruptRow(FamilyName(Family::kPoints), key, "point", value);
          }
          point.attempt = point_id.attempt;
          point.step = point_id.step;
          more = visit(point);
          return more;
        }));
    if (!more) break;
  }
  return absl::OkStatus();
}

absl::Status RocksStore::Steps(const std::string& run, const StepRange& range,
                               const std::function<bool(const StepRow&)>& visit) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t run_id, view.RunId(run));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(run_id));
  bool more = true;
  for (const Stretch& stretch : Stretches(attempts, range)) {
    FORESHOCK_RETURN_IF_ERROR(
        view.Scan(Family::kRows, StepKey({run_id, stretch.attempt, stretch.first}),
                  PrefixEnd(StepKey({run_id, stretch.attempt, stretch.last})),
                  [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
                    StepId id;
                    StepRow row;
                    if (!DecodeStepKey(key, &id) || !DecodeStep(value, &row)) {
                      return CorruptRow(FamilyName(Family::kRows), key, "step row", value);
                    }
                    row.attempt = id.attempt;
                    row.step = id.step;
                    more = visit(row);
                    return more;
                  }));
    if (!more) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> RocksStore::DeleteRun(const std::string& run) {
  uint32_t id = 0;
  uint64_t series = 0;
  {
    MutexLock lock(&writer_mutex_);
    FORESHOCK_RETURN_IF_ERROR(MakeWritable());
    FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    FORESHOCK_ASSIGN_OR_RETURN(id, view.RunId(run));
    rocksdb::WriteBatch rows;
    FORESHOCK_ASSIGN_OR_RETURN(series, writer_.AppendDeletion(run, id, *lease, &rows));
    // Synced: files are given back below, and the log must not forget why.
    const absl::Status committed = Commit(*lease, &rows, /*sync=*/true);
    if (!committed.ok()) {
      if (!LoadLocked().ok()) writable_ = false;
      return committed;
    }
    series_ = writer_.series();
  }
  if (const absl::Status reclaimed = Reclaim(id); !reclaimed.ok()) {
    LogWarning("store", "the space of a deleted run is given back later",
               {{"run", run}, {"error", reclaimed.ToString()}});
  }
  return series;
}

absl::Status RocksStore::Reclaim(uint32_t run) {
  FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
  const std::string begin_key = RunPrefix(run);
  const std::string end_key = PrefixEnd(begin_key);
  const rocksdb::Slice begin(begin_key);
  const rocksdb::Slice end(end_key);
  for (const Family family : {Family::kRows, Family::kOpen, Family::kPoints}) {
    rocksdb::ColumnFamilyHandle* handle = lease->family(family);
    // Files of this run alone go at once; the deletion is newer than all of them and not in one.
    rocksdb::Status status =
        rocksdb::DeleteFilesInRange(lease->db(), handle, &begin, &end, /*include_end=*/false);
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    if (status.ok()) status = lease->db()->CompactRange(options, handle, &begin, &end);
    FORESHOCK_RETURN_IF_ERROR(FromRocks(status, "store: cannot give space back"));
  }
  return absl::OkStatus();
}

StoreStats RocksStore::Stats() const {
  StoreStats stats;
  stats.bytes = DirectoryBytes(options_.directory);
  stats.series = series_;
  stats.points_written = points_written_;
  stats.batches_written = batches_written_;
  stats.writable = writable_ && !options_.read_only;
  return stats;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenRocksStore(const StoreOptions& options,
                                                      rocksdb::Env* env) {
  if (!options.read_only) FORESHOCK_RETURN_IF_ERROR(PrepareDirectory(options.directory));
  FORESHOCK_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(options, env));
  auto store = std::make_unique<RocksStore>(options, env, std::move(database));
  FORESHOCK_RETURN_IF_ERROR(store->Load());
  return store;
}

}  // namespace store

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options) {
  return store::OpenRocksStore(options, nullptr);
}

}  // namespace foreshock
