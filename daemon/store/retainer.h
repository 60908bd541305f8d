// One pass of retention over a store: looks, asks retention.h what is next, does it, looks again.
//
//   Retainer retainer(deps, options, now);
//   FORESHOCK_RETURN_IF_ERROR(retainer.Run());
//   ... retainer.result() ...
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/store/database.h"
#include "daemon/store/read_view.h"
#include "daemon/store/retention.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/window.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

// Crash-safe: a row per attempt says first from where on points are raw, then chunks are replaced
// batch by batch, then the row says that it is done. A pass that ended in between is done again
// from where the row says; replacing a chunk twice does nothing.
class Retainer {
 public:
  struct Deps {
    const DatabaseHolder* holder = nullptr;
    Mutex* chunks = nullptr;  // held by whoever writes chunks
    // How many runs have been deleted. A batch is written if there are no more of them now, and
    // refused (Aborted) if there are or the store is being closed.
    std::function<uint64_t()> deletions{};
    std::function<absl::Status(rocksdb::WriteBatch* batch, uint64_t deletions)> commit{};
    // Puts what the run holds outside chunks into them: only chunks are treated.
    std::function<absl::Status(uint32_t run)> fold{};
    std::function<absl::Status(const std::string& run)> empty_run{};
    std::function<absl::Status(const std::string& run)> delete_run{};
    // Hands the space of a run's deleted rows back to the file system.
    std::function<absl::Status(uint32_t run)> reclaim{};
    // Bytes of a run's rows that were replaced since it was last reclaimed; kept between passes.
    absl::flat_hash_map<uint32_t, uint64_t>* replaced = nullptr;
  };

  Retainer(Deps deps, const RetentionOptions& options, absl::Time now)
      : deps_(std::move(deps)), options_(options), now_(now) {}

  absl::Status Run();
  const RetentionResult& result() const { return result_; }  // also of a run that failed

 private:
  // What a walk over chunks does with one.
  using Treat = absl::FunctionRef<absl::Status(std::string_view key, Window window,
                                               std::string_view bytes, rocksdb::WriteBatch* batch)>;

  absl::StatusOr<std::vector<RunFacts>> Look(uint64_t* store_bytes);
  absl::StatusOr<RunFacts> LookAtRun(const ReadView& view, uint32_t id,
                                     const model::RunRow& row) const;
  absl::StatusOr<AttemptFacts> LookAtAttempt(const ReadView& view, uint32_t run,
                                             const model::AttemptRow& row) const;
  void LeaveAlone(const std::string& run, absl::string_view action, const absl::Status& why);
  absl::Status Do(const RetentionStep& step);
  absl::Status Downsample(uint32_t run, const RetentionStep& step);
  absl::Status Drop(uint32_t run, const RetentionStep& step);
  // Treats the chunks of the attempt whose windows end in [after, before), of all series from
  // `first_series` on, in batches.
  absl::Status ForChunks(uint32_t run, const RetentionStep& step, uint32_t first_series,
                         int64_t after, Treat treat);
  absl::Status PutRetention(uint32_t run, uint32_t attempt,
                            absl::FunctionRef<void(RetentionRow*)> change);
  absl::Status PutChunk(std::string_view key, std::string bytes, rocksdb::WriteBatch* batch) const;
  absl::Status DeleteChunk(std::string_view key, rocksdb::WriteBatch* batch) const;
  absl::Status MaybeReclaim(uint32_t run, const RetentionStep& step);

  const Deps deps_;
  const RetentionOptions options_;
  const absl::Time now_;
  RetentionResult result_;
  rocksdb::ColumnFamilyHandle* family_ = nullptr;   // of chunks, while they are walked
  absl::flat_hash_map<std::string, uint32_t> ids_;  // of runs, at the last look
  absl::flat_hash_map<uint32_t, uint64_t> bytes_;   // of runs, at the last look
  absl::flat_hash_set<std::string> left_alone_;     // runs that could not be treated
};

// The row of an attempt, or what it would say where nothing was done.
absl::StatusOr<RetentionRow> ReadRetention(const ReadView& view, uint32_t run, uint32_t attempt);
// The time of the newest step of an attempt, also of one that is gone.
absl::StatusOr<int64_t> NewestTime(const ReadView& view, uint32_t run,
                                   const model::AttemptRow& attempt);

}  // namespace foreshock::store
