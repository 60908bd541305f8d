#include "daemon/store/rocks_store.h"

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/buckets.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/database_holder.h"
#include "daemon/store/directory.h"
#include "daemon/store/fold_queue.h"
#include "daemon/store/folder.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/read_view.h"
#include "daemon/store/reads.h"
#include "daemon/store/reclaim.h"
#include "daemon/store/retainer.h"
#include "daemon/store/retention_facts.h"
#include "daemon/store/usage.h"
#include "daemon/store/writer.h"

namespace foreshock::store {
namespace {

// Joins the parts of the store. Reads go through a view each and take no lock. Locks are taken in
// this order: the retainer's, the folder's, the writer's, the fold queue's, the holder's.
class RocksStore final : public DiskStore {
 public:
  RocksStore(const StoreOptions& options, rocksdb::Env* env, std::shared_ptr<DamageWatch> damage,
             std::unique_ptr<Database> database)
      : options_(options),
        damage_(std::move(damage)),
        holder_(options, env, damage_, std::move(database)),
        fold_queue_(options.open_points, options.idle_fold),
        writer_(options, env, damage_.get(), &holder_, &fold_queue_),
        folder_(&holder_, &writer_, &fold_queue_, options.open_points),
        retainer_(&holder_, &writer_, &folder_) {}

  absl::Status Start() {
    FORESHOCK_RETURN_IF_ERROR(writer_.Load());
    if (!options_.read_only) folder_.Start();
    return absl::OkStatus();
  }

  absl::Status Write(const StoreBatch& batch) override {
    if (batch.empty()) return absl::OkStatus();
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<uint32_t> overfull, writer_.Write(batch));
    for (const uint32_t run : overfull) folder_.FoldOrLog(run);
    return absl::OkStatus();
  }
  absl::Status Sync() override { return writer_.Sync(); }

  absl::StatusOr<std::vector<model::RunRow>> Runs() const override {
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    std::vector<model::RunRow> rows;
    FORESHOCK_RETURN_IF_ERROR(view.ScanRuns([&rows](uint32_t, const model::RunRow& row) {
      rows.push_back(row);
      return absl::OkStatus();
    }));
    return rows;
  }
  absl::StatusOr<model::RunRow> Run(const std::string& run) const override {
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    FORESHOCK_ASSIGN_OR_RETURN(ReadView::StoredRun stored, view.FindRun(run));
    return std::move(stored.row);
  }
  absl::StatusOr<std::vector<model::AttemptRow>> Attempts(const std::string& run) const override {
    return InRun(run, [](const ReadView& view, uint32_t id) { return view.Attempts(id); });
  }
  absl::StatusOr<std::vector<model::RankRow>> Ranks(const std::string& run,
                                                    uint32_t attempt) const override {
    return InRun(run, [&](const ReadView& view, uint32_t id) {
      return ReadRows<model::RankRow>(view, KindPrefix(id, RowKind::kRank, attempt));
    });
  }
  absl::Status OpenReports(
      const std::string& run, uint32_t attempt,
      const std::function<bool(const model::ShardReport&)>& visit) const override {
    return InRun(run, [&](const ReadView& view, uint32_t id) {
      return ReadOpenReports(view, id, attempt, visit);
    });
  }
  absl::StatusOr<std::vector<model::AlertRow>> Alerts(const std::string& run) const override {
    return InRun(run, [](const ReadView& view, uint32_t id) {
      return ReadRows<model::AlertRow>(view, KindPrefix(id, RowKind::kAlert));
    });
  }
  absl::StatusOr<std::vector<model::EventRow>> Events(const std::string& run) const override {
    return InRun(run, [](const ReadView& view, uint32_t id) {
      return ReadRows<model::EventRow>(view, KindPrefix(id, RowKind::kEvent));
    });
  }
  absl::StatusOr<std::vector<model::CoactivationRow>> Coactivation(
      const std::string& run, uint32_t attempt) const override {
    return InRun(run, [&](const ReadView& view, uint32_t id) {
      return ReadRows<model::CoactivationRow>(view,
                                              KindPrefix(id, RowKind::kCoactivation, attempt));
    });
  }
  absl::StatusOr<std::optional<model::JudgingRow>> Judging(const std::string& run) const override {
    return InRun(run, [](const ReadView& view, uint32_t id) {
      return ReadRow<model::JudgingRow>(view, JudgingKey(id));
    });
  }
  absl::StatusOr<model::SilencesRow> Silences() const override {
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    FORESHOCK_ASSIGN_OR_RETURN(std::optional<model::SilencesRow> row,
                               ReadRow<model::SilencesRow>(view, SilencesKey()));
    return std::move(row).value_or(model::SilencesRow());
  }

  absl::StatusOr<std::vector<model::SeriesKey>> Series(const std::string& run,
                                                       const SeriesFilter& filter) const override {
    return InRun(run,
                 [&](const ReadView& view, uint32_t id) { return ReadSeries(view, id, filter); });
  }
  absl::Status Points(
      const std::string& run, absl::Span<const model::SeriesKey> series, const StepRange& range,
      const std::function<bool(size_t, const model::Point&)>& visit) const override {
    return InRun(run, [&](const ReadView& view, uint32_t id) {
      return ReadPoints(view, id, series, range, visit);
    });
  }
  absl::Status Buckets(const std::string& run, absl::Span<const model::SeriesKey> series,
                       const StepRange& range, int64_t bucket_steps,
                       const std::function<bool(size_t, const Bucket&)>& visit) const override {
    FORESHOCK_RETURN_IF_ERROR(CheckBucketSteps(bucket_steps));
    return InRun(run, [&](const ReadView& view, uint32_t id) {
      return ReadBuckets(view, id, series, range, bucket_steps, visit);
    });
  }
  absl::StatusOr<int64_t> RawFrom(const std::string& run, const StepRange& range) const override {
    return InRun(run,
                 [&](const ReadView& view, uint32_t id) { return ReadRawFrom(view, id, range); });
  }
  absl::Status Steps(const std::string& run, const StepRange& range,
                     const std::function<bool(const model::StepRow&)>& visit) const override {
    return InRun(
        run, [&](const ReadView& view, uint32_t id) { return ReadSteps(view, id, range, visit); });
  }

  absl::StatusOr<uint64_t> DeleteRun(const std::string& run) override;
  absl::Status Fold(const std::string& run) override {
    FORESHOCK_RETURN_IF_ERROR(writer_.CheckMayWrite());
    FORESHOCK_ASSIGN_OR_RETURN(
        const uint32_t id,
        InRun(run,
              [](const ReadView&, uint32_t found) -> absl::StatusOr<uint32_t> { return found; }));
    return folder_.Fold(id);
  }
  StoreStats Stats() const override;

  absl::StatusOr<RetentionResult> Retain(const RetentionOptions& options, absl::Time now,
                                         const RetentionHooks& hooks) override {
    return retainer_.Retain(options, now, hooks);
  }
  absl::StatusOr<StoreUsage> Usage() const override {
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    FORESHOCK_ASSIGN_OR_RETURN(StoreUsage usage, ReadUsage(view));
    usage.disk_bytes = DirectoryBytes(options_.directory);
    return usage;
  }
  absl::StatusOr<VerifyResult> Verify(const VerifyCallbacks& callbacks) const override;
  absl::StatusOr<BackupInfo> Backup(const std::string& directory) const override {
    FORESHOCK_RETURN_IF_ERROR(writer_.CheckMayWrite());
    FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
    return CreateBackup(*lease, directory);
  }

 private:
  // Calls read(view, id of the run) and returns its result.
  template <typename Read>
  std::invoke_result_t<Read, const ReadView&, uint32_t> InRun(const std::string& run,
                                                              Read read) const {
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(holder_));
    FORESHOCK_ASSIGN_OR_RETURN(const uint32_t id, view.RunId(run));
    return read(view, id);
  }

  const StoreOptions options_;
  const std::shared_ptr<DamageWatch> damage_;
  DatabaseHolder holder_;
  FoldQueue fold_queue_;
  Writer writer_;
  Folder folder_;
  Retainer retainer_;
};

absl::StatusOr<uint64_t> RocksStore::DeleteRun(const std::string& run) {
  FORESHOCK_ASSIGN_OR_RETURN(const Writer::Removed removed, writer_.DeleteRun(run));
  folder_.WaitForFold();
  if (const absl::Status reclaimed = Reclaim(holder_, removed.run, kAllFamilies); !reclaimed.ok()) {
    base::LogWarning("store", "the space of a deleted run is given back later",
                     {{"run", run}, {"error", reclaimed.ToString()}});
  }
  return removed.series;
}

StoreStats RocksStore::Stats() const {
  StoreStats stats;
  stats.bytes = DirectoryBytes(options_.directory);
  stats.series = writer_.series();
  stats.points_written = writer_.points_written();
  stats.batches_written = writer_.batches_written();
  stats.open_points = fold_queue_.points();
  stats.points_folded = folder_.points_folded();
  stats.fold_failures = folder_.failures();
  stats.points_downsampled = retainer_.points_downsampled();
  stats.points_dropped = retainer_.points_dropped();
  stats.runs_dropped = retainer_.runs_dropped();
  stats.damage_found = damage_->found();
  stats.writable = writer_.writable();
  return stats;
}

absl::StatusOr<VerifyResult> RocksStore::Verify(const VerifyCallbacks& callbacks) const {
  FORESHOCK_ASSIGN_OR_RETURN(const DatabaseHolder::Lease lease, holder_.Acquire());
  // After a failed write the database must be opened again, which waits for this lease.
  const bool was_writable = writer_.writable();
  VerifyCallbacks watched = callbacks;
  watched.progress = [&](const VerifyProgress& progress) {
    return writer_.writable() == was_writable &&
           (callbacks.progress == nullptr || callbacks.progress(progress));
  };
  const absl::StatusOr<VerifyResult> result = VerifyDatabase(*lease, watched);
  if (absl::IsCancelled(result.status()) && writer_.writable() != was_writable) {
    return absl::UnavailableError("verify: the store had to be reopened meanwhile; try again");
  }
  return result;
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

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreOptions& options) {
  return store::OpenRocksStore(options, nullptr);
}

absl::StatusOr<std::unique_ptr<DiskStore>> OpenDiskStore(const StoreOptions& options) {
  return store::OpenRocksStore(options, nullptr);
}

}  // namespace foreshock::store
