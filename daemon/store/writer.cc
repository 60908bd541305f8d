#include "daemon/store/writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/directory.h"
#include "daemon/store/head_codec.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"

namespace foreshock::store {
namespace {

// A reopen writes a manifest, an options file and a new log; with less room it is not tried.
constexpr uint64_t kReopenBytes = 1u << 20;

}  // namespace

Writer::Writer(const StoreOptions& options, rocksdb::Env* env, DamageWatch* damage,
               DatabaseHolder* holder, FoldQueue* fold_queue)
    : options_(options),
      env_(env),
      damage_(damage),
      holder_(holder),
      fold_queue_(fold_queue),
      batches_(options.precision) {}

absl::Status Writer::Load() {
  base::MutexLock lock(&mutex_);
  return LoadLocked();
}

absl::Status Writer::LoadLocked() {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*holder_));
  FORESHOCK_RETURN_IF_ERROR(batches_.Load(view));
  series_ = batches_.series();
  LoadHeads(view);
  return absl::OkStatus();
}

void Writer::LoadHeads(const ReadView& view) {
  std::vector<FoldQueue::NewHead> heads;
  uint32_t series = 0;
  const absl::Status read =
      view.ScanPrefix(Family::kHeads, "",
                      [&](absl::string_view key, absl::string_view bytes)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::StatusOr<bool> {
                            HeadId id;
                            HeadReader head;
                            if (!DecodeHeadKey(key, &id) || !head.Open(bytes)) {
                              return CorruptRow(FamilyName(Family::kHeads), key, "head", bytes);
                            }
                            // Heads of one run lie side by side.
                            if (heads.empty() || heads.back().run != id.run) {
                              series = batches_.SeriesOfRun(id.run);
                            }
                            heads.push_back({id.run, head.points(), series});
                            return true;
                          });
  if (!read.ok()) base::LogError("store", "steps cannot be folded", {{"error", read.ToString()}});
  fold_queue_->Reset(heads, base::SteadyNow());
}

absl::Status Writer::CheckMayWrite() const {
  if (!options_.read_only) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("store: ", options_.directory, " is open for reading only"));
}

absl::Status Writer::MakeWritable() {
  FORESHOCK_RETURN_IF_ERROR(CheckMayWrite());
  if (writable_) return absl::OkStatus();
  FORESHOCK_RETURN_IF_ERROR(ProbeWrite(options_.directory, kReopenBytes));
  FORESHOCK_RETURN_IF_ERROR(holder_->Reopen());
  FORESHOCK_RETURN_IF_ERROR(LoadLocked());
  base::LogInfo("store", "writable again", {{"directory", options_.directory}});
  writable_ = true;
  return absl::OkStatus();
}

absl::Status Writer::Put(const Database& database, rocksdb::WriteBatch* batch, bool sync) {
  if (damage_->TakeFailedCompaction()) FORESHOCK_RETURN_IF_ERROR(database.SuspendCompactions());
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status written = database.db()->Write(options, batch);
  if (written.ok()) return absl::OkStatus();
  writable_ = false;
  return FromRocks(written, absl::StrCat("store: cannot write to ", options_.directory));
}

void Writer::TakeBack() {
  const absl::Status loaded = LoadLocked();
  if (loaded.ok()) return;
  writable_ = false;
  base::LogError("store", "reading ids failed", {{"error", loaded.ToString()}});
}

absl::StatusOr<std::vector<uint32_t>> Writer::Write(const StoreBatch& batch) {
  base::MutexLock lock(&mutex_);
  FORESHOCK_RETURN_IF_ERROR(MakeWritable());
  std::vector<FoldQueue::NewHead> heads;
  absl::Status status;
  {
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*holder_));
    rocksdb::WriteBatch rows;
    status = batches_.Append(batch, view, &rows, &heads);
    if (status.ok()) status = Put(view.database(), &rows, /*sync=*/false);
  }
  if (!status.ok()) {
    TakeBack();
    return status;
  }
  series_ = batches_.series();
  ++batches_written_;
  for (const model::ClosedStep& step : batch.steps) points_written_ += step.samples.size();
  return fold_queue_->Add(heads, base::SteadyNow());
}

absl::Status Writer::Sync() {
  if (options_.read_only) return absl::OkStatus();
  const absl::Status synced = SyncLogs(options_.directory, env_);
  // After a failed sync the kernel drops pages. Only reading the log again finds which.
  if (!synced.ok()) writable_ = false;
  return synced;
}

absl::StatusOr<Writer::Removed> Writer::DeleteRun(const std::string& name) {
  base::MutexLock lock(&mutex_);
  return Remove(name,
                [&](const ReadView& view, uint32_t run, rocksdb::WriteBatch* rows)
                    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::StatusOr<uint64_t> {
                      return batches_.AppendDeletion(name, run, view.database(), rows);
                    });
}

absl::StatusOr<Writer::Removed> Writer::EmptyRun(const std::string& name) {
  base::MutexLock lock(&mutex_);
  return Remove(name,
                [&](const ReadView& view, uint32_t run, rocksdb::WriteBatch* rows)
                    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::StatusOr<uint64_t> {
                      return batches_.AppendEmptying(name, run, view, rows);
                    });
}

absl::StatusOr<Writer::Removed> Writer::Remove(const std::string& name, AppendRemoval append) {
  FORESHOCK_RETURN_IF_ERROR(MakeWritable());
  Removed removed;
  absl::Status committed;
  {
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*holder_));
    FORESHOCK_ASSIGN_OR_RETURN(removed.run, view.RunId(name));
    rocksdb::WriteBatch rows;
    FORESHOCK_ASSIGN_OR_RETURN(removed.series, append(view, removed.run, &rows));
    ++deletions_;
    // Synced: the files are deleted after it, and the log must hold the reason by then.
    committed = Put(view.database(), &rows, /*sync=*/true);
  }
  if (!committed.ok()) {
    TakeBack();
    return committed;
  }
  series_ = batches_.series();
  fold_queue_->Forget(removed.run);
  return removed;
}

absl::Status Writer::CalledOff(uint64_t deletions) const {
  if (closed_) return absl::AbortedError("store: is being closed");
  if (deletions_ != deletions) return absl::AbortedError("store: a run was deleted meanwhile");
  if (!writable_) return absl::UnavailableError("store: no write has succeeded since one failed");
  return absl::OkStatus();
}

absl::Status Writer::Commit(const Database& database, rocksdb::WriteBatch* batch,
                            uint64_t deletions, const FoldQueue::Heads& folded) {
  // Also asked before the lock: a write that opens the database again holds it, and waits until
  // the caller gives its view back.
  FORESHOCK_RETURN_IF_ERROR(CalledOff(deletions));
  base::MutexLock lock(&mutex_);
  FORESHOCK_RETURN_IF_ERROR(CalledOff(deletions));
  FORESHOCK_RETURN_IF_ERROR(Put(database, batch, /*sync=*/false));
  if (folded.heads > 0) fold_queue_->Folded(folded);
  return absl::OkStatus();
}

}  // namespace foreshock::store
