#include "daemon/store/folder.h"

#include <optional>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/fold.h"
#include "daemon/store/read_view.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

Folder::Folder(const DatabaseHolder* holder, Writer* writer, FoldQueue* queue, uint64_t points_max)
    : holder_(holder), writer_(writer), queue_(queue), points_max_(points_max) {}

Folder::~Folder() {
  writer_->Close();
  queue_->Stop();
  if (thread_.joinable()) thread_.join();
}

void Folder::Start() {
  thread_ = std::thread([this] {
    while (const std::optional<uint32_t> run = queue_->WaitForDue()) FoldOrLog(*run);
  });
}

absl::Status Folder::Fold(uint32_t run) {
  base::MutexLock lock(&chunks_mutex_);
  for (bool more = true; more;) {
    FORESHOCK_ASSIGN_OR_RETURN(more, FoldOnce(run));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Folder::FoldOnce(uint32_t run) {
  const uint64_t deletions = writer_->deletions();
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*holder_));
  FORESHOCK_ASSIGN_OR_RETURN(RunFold fold, RunFold::Of(view, run, points_max_));
  const auto commit = [&](rocksdb::WriteBatch* batch, uint64_t heads,
                          uint64_t points) -> absl::Status {
    FORESHOCK_RETURN_IF_ERROR(
        writer_->Commit(view.database(), batch, deletions, {run, heads, points}));
    points_folded_ += points;
    return absl::OkStatus();
  };
  FORESHOCK_RETURN_IF_ERROR(fold.Write(commit, [&] { return writer_->CalledOff(deletions); }));
  return !fold.complete();
}

void Folder::FoldOrLog(uint32_t run) {
  const absl::Status folded = Fold(run);
  // A fold that was called off stays due.
  if (folded.ok() || absl::IsAborted(folded)) return;
  ++failures_;
  base::LogEvery("store fold", base::LogLevel::kError, "store",
                 "closed steps cannot be put into chunks; they stay as they were written",
                 {{"error", folded.ToString()}});
  queue_->Failed(run, base::SteadyNow());
}

}  // namespace foreshock::store
