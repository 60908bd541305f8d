#include "daemon/store/rocks_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/mutex.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/batch_writer.h"
#include "daemon/store/buckets.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/directory.h"
#include "daemon/store/fold.h"
#include "daemon/store/fold_queue.h"
#include "daemon/store/head_codec.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/lineage.h"
#include "daemon/store/point_reads.h"
#include "daemon/store/read_view.h"
#include "daemon/store/retainer.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/usage.h"
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

class RocksStore final : public DiskStore {
 public:
  RocksStore(const StoreOptions& options, rocksdb::Env* env, std::shared_ptr<DamageWatch> damage,
             std::unique_ptr<Database> database)
      : options_(options),
        env_(env),
        damage_(std::move(damage)),
        holder_(options, env, damage_, std::move(database)),
        writer_(options.precision),
        fold_queue_(options.open_points, options.idle_fold) {}
  ~RocksStore() override;

  // Reads what the writer must know, and begins to fold by itself.
  absl::Status Start();

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
  absl::StatusOr<std::optional<model::JudgingRow>> Judging(const std::string& run) const override;
  absl::StatusOr<model::SilencesRow> Silences() const override;

  absl::StatusOr<std::vector<SeriesKey>> Series(const std::string& run,
                                                const SeriesFilter& filter) const override;
  absl::Status Points(const std::string& run, absl::Span<const SeriesKey> series,
                      const StepRange& range,
                      const std::function<bool(size_t, const Point&)>& visit) const override;
  absl::Status Buckets(const std::string& run, absl::Span<const SeriesKey> series,
                       const StepRange& range, int64_t bucket_steps,
                       const std::function<bool(size_t, const Bucket&)>& visit) const override;
  absl::StatusOr<int64_t> RawFrom(const std::string& run, const StepRange& range) const override;
  absl::Status Steps(const std::string& run, const StepRange& range,
                     const std::function<bool(const StepRow&)>& visit) const override;

  absl::StatusOr<uint64_t> DeleteRun(const std::string& run) override;

  absl::Status Fold(const std::string& run) override;

  StoreStats Stats() const override;

  absl::StatusOr<RetentionResult> Retain(const RetentionOptions& options, absl::Time now,
                                         const RetentionHooks& hooks) override;
  absl::StatusOr<StoreUsage> Usage() const override;
  absl::StatusOr<VerifyResult> Verify(const VerifyCallbacks& callbacks) const override;
  absl::StatusOr<BackupInfo> Backup(const std::string& directory) const override;

 private:
  absl::Status LoadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Before a write: not read-only, and open again after a failed one.
  absl::Status MakeWritable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Writes all or nothing, and remembers that a reopen is due after a failure.
  absl::Status Commit(const Database& database, rocksdb::WriteBatch* batch, bool sync)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Removes what retention removes of a run: its series and all that hangs on them.
  absl::Status EmptyRun(const std::string& run);
  // Commits a batch that removes rows of a run; folds and retention under way are called off.
  absl::Status CommitDeletion(const Database& database, rocksdb::WriteBatch* rows, uint32_t run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Hands the space of a run's deleted rows back to the file system, all of it or that of families
  // that are deleted whole.
  absl::Status Reclaim(uint32_t run, absl::Span<const Family> deleted_whole);
  // Why a fold or a pass of retention that began when there were so many deletions must end.
  absl::Status CalledOff(uint64_t deletions) const;

  // Which heads there are. What cannot be read is left out and said: their points are not lost, and
  // whoever reads them is told.
  void LoadFoldQueue(const ReadView& view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_);
  // Folds everything that the run holds now. Aborted if it is deleted meanwhile.
  absl::Status FoldRun(uint32_t run);
  // One fold of at most open_points; false: there is nothing left to fold.
  absl::StatusOr<bool> FoldOnce(uint32_t run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(fold_mutex_);
  // FoldRun by the store's own decision: failures are logged and counted, not handed on.
  void FoldAndTell(uint32_t run);
  void FoldInBackground();

  const StoreOptions options_;
  rocksdb::Env* const env_;
  const std::shared_ptr<DamageWatch> damage_;
  DatabaseHolder holder_;

  // Held over a fold: nobody else writes chunks. Taken before writer_mutex_, never by a read.
  Mutex fold_mutex_;
  // Held over a write: there is one writer at a time. Never taken by a read.
  Mutex writer_mutex_ ABSL_ACQUIRED_AFTER(fold_mutex_);
  BatchWriter writer_ ABSL_GUARDED_BY(writer_mutex_);
  FoldQueue fold_queue_ ABSL_GUARDED_BY(writer_mutex_);
  CondVar fold_due_;  // with writer_mutex_
  bool fold_sleeps_for_ever_ ABSL_GUARDED_BY(writer_mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(writer_mutex_) = false;

  // A fold that began at another number is called off, lest it brings back what was deleted.
  std::atomic<uint64_t> deletions_{0};
  std::atomic<bool> stopping_{false};

  std::atomic<bool> writable_{true};
  std::atomic<uint64_t> series_{0};
  std::atomic<uint64_t> points_written_{0};
  std::atomic<uint64_t> batches_written_{0};
  std::atomic<uint64_t> open_points_{0};
  std::atomic<uint64_t> points_folded_{0};
  std::atomic<uint64_t> fold_failures_{0};
  std::atomic<uint64_t> points_downsampled_{0};
  std::atomic<uint64_t> points_dropped_{0};
  std::atomic<uint64_t> runs_dropped_{0};

  Mutex retention_mutex_ ABSL_ACQUIRED_BEFORE(fold_mutex_);  // one pass at a time
  absl::flat_hash_map<uint32_t, uint64_t> replaced_ ABSL_GUARDED_BY(retention_mutex_);

  std::thread folder_;
};

RocksStore::~RocksStore() {
  stopping_ = true;
  {
    MutexLock lock(&writer_mutex_);
    stop_ = true;
    fold_due_.NotifyAll();
  }
  if (folder_.joinable()) folder_.join();
}

absl::Status RocksStore::Start() {
  {
    MutexLock lock(&writer_mutex_);
    FORESHOCK_RETURN_IF_ERROR(LoadLocked());
  }
  if (!options_.read_only) folder_ = std::thread([this] { FoldInBackground(); });
  return absl::OkStatus();
}

absl::Status RocksStore::LoadLocked() {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_RETURN_IF_ERROR(writer_.Load(view));
  series_ = writer_.series();
  LoadFoldQueue(view);
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
  if (damage_->TakeFailedCompaction()) FORESHOCK_RETURN_IF_ERROR(database.SuspendCompactions());
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status written = database.db()->Write(options, batch);
  if (written.ok()) return absl::OkStatus();
  writable_ = false;
  return FromRocks(written, absl::StrCat("store: cannot write to ", options_.directory));
}

absl::Status RocksStore::Write(const StoreBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  absl::flat_hash_set<uint32_t> overfull;
  {
    MutexLock lock(&writer_mutex_);
    FORESHOCK_RETURN_IF_ERROR(MakeWritable());
    absl::StatusOr<std::vector<BatchWriter::NewHead>> heads;
    absl::Status status;
    {
      FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
      FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
      rocksdb::WriteBatch rows;
      heads = writer_.Append(batch, *lease, view, &rows);
      status = heads.ok() ? Commit(*lease, &rows, /*sync=*/false) : heads.status();
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
    const FoldQueue::Time now = std::chrono::steady_clock::now();
    for (const BatchWriter::NewHead& head : *heads) {
      fold_queue_.Added(head.run, head.points, head.run_series, now);
      if (fold_queue_.Overfull(head.run, now)) overfull.insert(head.run);
    }
    open_points_ = fold_queue_.points();
    // The folder sleeps until something is due, or for ever if there is nothing.
    if (fold_queue_.Due(now).has_value() || fold_sleeps_for_ever_) fold_due_.NotifyAll();
  }
  for (const uint32_t run : overfull) FoldAndTell(run);
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

absl::StatusOr<std::optional<model::JudgingRow>> RocksStore::Judging(const std::string& run) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  const std::string key = JudgingKey(id);
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<std::string> value, view.Get(Family::kRows, key));
  std::optional<model::JudgingRow> row;
  if (!value.has_value()) return row;
  FORESHOCK_RETURN_IF_ERROR(ParseRow(Family::kRows, key, *value, &row.emplace()));
  return row;
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

absl::Status RocksStore::Points(const std::string& run, absl::Span<const SeriesKey> series,
                                const StepRange& range,
                                const std::function<bool(size_t, const Point&)>& visit) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  return ReadPoints(view, id, series, range, visit);
}

absl::Status RocksStore::Buckets(const std::string& run, absl::Span<const SeriesKey> series,
                                 const StepRange& range, int64_t bucket_steps,
                                 const std::function<bool(size_t, const Bucket&)>& visit) const {
  FORESHOCK_RETURN_IF_ERROR(CheckBucketSteps(bucket_steps));
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  return ReadBuckets(view, id, series, range, bucket_steps, visit);
}

absl::Status RocksStore::Steps(const std::string& run, const StepRange& range,
                               const std::function<bool(const StepRow&)>& visit) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  return ReadSteps(view, id, range, visit);
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
    FORESHOCK_RETURN_IF_ERROR(CommitDeletion(*lease, &rows, id));
  }
  // A fold under way holds on to what was deleted; it is called off and goes.
  { MutexLock lock(&fold_mutex_); }
  if (const absl::Status reclaimed = Reclaim(id, kAllFamilies); !reclaimed.ok()) {
    LogWarning("store", "the space of a deleted run is given back later",
               {{"run", run}, {"error", reclaimed.ToString()}});
  }
  return series;
}

absl::Status RocksStore::EmptyRun(const std::string& run) {
  constexpr Family kEmptied[] = {Family::kOpen, Family::kHeads, Family::kChunks};
  uint32_t id = 0;
  {
    MutexLock lock(&writer_mutex_);
    FORESHOCK_RETURN_IF_ERROR(MakeWritable());
    FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    FORESHOCK_ASSIGN_OR_RETURN(id, view.RunId(run));
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(id));
    rocksdb::WriteBatch rows;
    FORESHOCK_RETURN_IF_ERROR(writer_.AppendEmptying(run, id, attempts, view, *lease, &rows));
    FORESHOCK_RETURN_IF_ERROR(CommitDeletion(*lease, &rows, id));
  }
  { MutexLock lock(&fold_mutex_); }
  if (const absl::Status reclaimed = Reclaim(id, kEmptied); !reclaimed.ok()) {
    LogWarning("store", "the space of an emptied run is given back later",
               {{"run", run}, {"error", reclaimed.ToString()}});
  }
  return absl::OkStatus();
}

absl::Status RocksStore::CommitDeletion(const Database& database, rocksdb::WriteBatch* rows,
                                        uint32_t run) {
  ++deletions_;
  // Synced: files are given back after it, and the log must not forget why.
  const absl::Status committed = Commit(database, rows, /*sync=*/true);
  if (!committed.ok()) {
    if (!LoadLocked().ok()) writable_ = false;
    return committed;
  }
  series_ = writer_.series();
  fold_queue_.Forget(run);
  open_points_ = fold_queue_.points();
  return absl::OkStatus();
}

absl::Status RocksStore::CalledOff(uint64_t deletions) const {
  if (stopping_) return absl::AbortedError("store: is being closed");
  if (deletions_ != deletions) return absl::AbortedError("store: a run was deleted meanwhile");
  if (!writable_) return absl::UnavailableError("store: no write since one has failed");
  return absl::OkStatus();
}

absl::Status RocksStore::Reclaim(uint32_t run, absl::Span<const Family> deleted_whole) {
  FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
  const std::string begin_key = RunPrefix(run);
  const std::string end_key = PrefixEnd(begin_key);
  const rocksdb::Slice begin(begin_key);
  const rocksdb::Slice end(end_key);
  for (const Family family : kAllFamilies) {
    rocksdb::ColumnFamilyHandle* handle = lease->family(family);
    // Files of this run alone go at once; the deletion is newer than all of them and not in one.
    rocksdb::Status status;
    if (std::find(deleted_whole.begin(), deleted_whole.end(), family) != deleted_whole.end()) {
      status =
          rocksdb::DeleteFilesInRange(lease->db(), handle, &begin, &end, /*include_end=*/false);
    }
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    if (status.ok()) status = lease->db()->CompactRange(options, handle, &begin, &end);
    FORESHOCK_RETURN_IF_ERROR(FromRocks(status, "store: cannot give space back"));
  }
  return absl::OkStatus();
}

void RocksStore::LoadFoldQueue(const ReadView& view) {
  const FoldQueue::Time now = std::chrono::steady_clock::now();
  fold_queue_.Clear();
  uint32_t series_of = 0;
  uint32_t series = 0;
  const absl::Status read =
      view.ScanPrefix(Family::kHeads, "",
                      [&](std::string_view key, std::string_view bytes)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_mutex_) -> absl::StatusOr<bool> {
                            HeadId id;
                            HeadReader head;
                            if (!DecodeHeadKey(key, &id) || !head.Open(bytes)) {
                              return CorruptRow(FamilyName(Family::kHeads), key, "head", bytes);
                            }
                            if (id.run != series_of) {
                              series_of = id.run;
                              series = writer_.SeriesOfRun(id.run);
                            }
                            fold_queue_.Added(id.run, head.points(), series, now);
                            return true;
                          });
  if (!read.ok()) LogError("store", "steps cannot be folded", {{"error", read.ToString()}});
  open_points_ = fold_queue_.points();
}

absl::Status RocksStore::Fold(const std::string& run) {
  if (options_.read_only) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: ", options_.directory, " is open for reading only"));
  }
  uint32_t id = 0;
  {
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    FORESHOCK_ASSIGN_OR_RETURN(id, view.RunId(run));
  }
  return FoldRun(id);
}

absl::Status RocksStore::FoldRun(uint32_t run) {
  MutexLock folding(&fold_mutex_);
  for (bool more = true; more;) {
    FORESHOCK_ASSIGN_OR_RETURN(more, FoldOnce(run));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RocksStore::FoldOnce(uint32_t run) {
  const uint64_t deletions = deletions_;
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(RunFold fold, RunFold::Of(view, run, options_.open_points));
  const auto called_off = [&] { return CalledOff(deletions); };
  const auto commit = [&](rocksdb::WriteBatch* batch, uint64_t heads,
                          uint64_t points) -> absl::Status {
    // Asked before too: a writer that reopens the database waits for this fold to end.
    FORESHOCK_RETURN_IF_ERROR(called_off());
    MutexLock lock(&writer_mutex_);
    FORESHOCK_RETURN_IF_ERROR(called_off());
    FORESHOCK_RETURN_IF_ERROR(Commit(view.database(), batch, /*sync=*/false));
    fold_queue_.Folded(run, heads, points);
    open_points_ = fold_queue_.points();
    points_folded_ += points;
    return absl::OkStatus();
  };
  FORESHOCK_RETURN_IF_ERROR(fold.Write(commit, called_off));
  return !fold.complete();
}

void RocksStore::FoldAndTell(uint32_t run) {
  const absl::Status folded = FoldRun(run);
  if (folded.ok() || absl::IsAborted(folded)) return;  // called off: what is left comes up again
  ++fold_failures_;
  LogEvery("store fold", LogLevel::kError, "store",
           "closed steps cannot be put into chunks; they stay as they were written",
           {{"error", folded.ToString()}});
  MutexLock lock(&writer_mutex_);
  fold_queue_.Failed(run, std::chrono::steady_clock::now());
}

void RocksStore::FoldInBackground() {
  for (;;) {
    std::optional<uint32_t> run;
    {
      MutexLock lock(&writer_mutex_);
      for (;;) {
        if (stop_) return;
        const FoldQueue::Time now = std::chrono::steady_clock::now();
        run = fold_queue_.Due(now);
        if (run.has_value()) break;
        const std::optional<FoldQueue::Time> next = fold_queue_.NextDue();
        fold_sleeps_for_ever_ = !next.has_value();
        if (next.has_value()) {
          fold_due_.WaitFor(&writer_mutex_, absl::FromChrono(*next - now));
        } else {
          fold_due_.Wait(&writer_mutex_);
        }
        fold_sleeps_for_ever_ = false;
      }
    }
    FoldAndTell(*run);
  }
}

absl::StatusOr<int64_t> RocksStore::RawFrom(const std::string& run, const StepRange& range) const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(id));
  int64_t raw_from = range.first;
  for (const Stretch& stretch : Stretches(attempts, range)) {
    FORESHOCK_ASSIGN_OR_RETURN(const RetentionRow row, ReadRetention(view, id, stretch.attempt));
    if (row.raw_from <= stretch.first) continue;
    const bool to_the_end = stretch.last == std::numeric_limits<int64_t>::max();
    raw_from =
        std::max(raw_from, to_the_end ? row.raw_from : std::min(row.raw_from, stretch.last + 1));
  }
  return raw_from;
}

absl::StatusOr<RetentionResult> RocksStore::Retain(const RetentionOptions& options, absl::Time now,
                                                   const RetentionHooks& hooks) {
  if (options_.read_only) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: ", options_.directory, " is open for reading only"));
  }
  MutexLock lock(&retention_mutex_);
  Retainer retainer(
      {.holder = &holder_,
       .chunks = &fold_mutex_,
       .deletions = [this]() -> uint64_t { return deletions_; },
       .commit = [this, &hooks](rocksdb::WriteBatch* batch, uint64_t deletions) -> absl::Status {
         if (!hooks.go_on()) return absl::AbortedError("store: retention was told to stop");
         MutexLock writing(&writer_mutex_);
         FORESHOCK_RETURN_IF_ERROR(CalledOff(deletions));
         FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
         return Commit(*lease, batch, /*sync=*/false);
       },
       .fold = [this](uint32_t run) { return FoldRun(run); },
       .empty_run = [this](const std::string& run) { return EmptyRun(run); },
       .delete_run = hooks.delete_run,
       .reclaim = [this](uint32_t run) { return Reclaim(run, {}); },
       .replaced = &replaced_},
      options, now);
  const absl::Status done = retainer.Run();
  const RetentionResult& result = retainer.result();
  points_downsampled_ += result.points_downsampled;
  points_dropped_ += result.points_dropped;
  runs_dropped_ += result.runs_emptied + result.runs_deleted;
  FORESHOCK_RETURN_IF_ERROR(done);
  return result;
}

absl::StatusOr<StoreUsage> RocksStore::Usage() const {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
  FORESHOCK_ASSIGN_OR_RETURN(StoreUsage usage, ReadUsage(view));
  usage.disk_bytes = DirectoryBytes(options_.directory);
  return usage;
}

absl::StatusOr<VerifyResult> RocksStore::Verify(const VerifyCallbacks& callbacks) const {
  FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
  if (options_.read_only) return VerifyDatabase(*lease, callbacks);
  // A write that failed must be able to reopen the database, which waits for who uses it.
  const bool was_writable = writable_;
  VerifyCallbacks watched = callbacks;
  watched.progress = [&](const VerifyProgress& progress) {
    return writable_ == was_writable &&
           (callbacks.progress == nullptr || callbacks.progress(progress));
  };
  const absl::StatusOr<VerifyResult> result = VerifyDatabase(*lease, watched);
  if (absl::IsCancelled(result.status()) && writable_ != was_writable) {
    return absl::UnavailableError("verify: the store had to be reopened meanwhile; try again");
  }
  return result;
}

absl::StatusOr<BackupInfo> RocksStore::Backup(const std::string& directory) const {
  if (options_.read_only) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: ", options_.directory, " is open for reading only"));
  }
  FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
  return CreateBackup(*lease, directory);
}

StoreStats RocksStore::Stats() const {
  StoreStats stats;
  stats.bytes = DirectoryBytes(options_.directory);
  stats.series = series_;
  stats.points_written = points_written_;
  stats.batches_written = batches_written_;
  stats.open_points = open_points_;
  stats.points_folded = points_folded_;
  stats.fold_failures = fold_failures_;
  stats.damage_found = damage_->found();
  stats.points_downsampled = points_downsampled_;
  stats.points_dropped = points_dropped_;
  stats.runs_dropped = runs_dropped_;
  stats.writable = writable_ && !options_.read_only;
  return stats;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskStore>> OpenRocksStore(const StoreOptions& options,
                                                          rocksdb::Env* env) {
  if (!options.read_only) FORESHOCK_RETURN_IF_ERROR(PrepareDirectory(options.directory));
  auto damage = std::make_shared<DamageWatch>();
  FORESHOCK_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                             Database::Open(options, env, damage));
  auto store = std::make_unique<RocksStore>(options, env, damage, std::move(database));
  FORESHOCK_RETURN_IF_ERROR(store->Start());
  return store;
}

}  // namespace store

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options) {
  return store::OpenRocksStore(options, nullptr);
}

absl::StatusOr<std::unique_ptr<DiskStore>> OpenDiskStore(const StoreOptions& options) {
  return store::OpenRocksStore(options, nullptr);
}

}  // namespace foreshock
