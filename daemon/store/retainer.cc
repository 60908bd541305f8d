#include "daemon/store/retainer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/read_view.h"
#include "daemon/store/reclaim.h"
#include "daemon/store/retention_facts.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/seal.h"
#include "daemon/store/usage.h"
#include "daemon/store/window.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {
namespace {

// A batch reads so much, which takes some tens of milliseconds; then the pass may be told to stop.
constexpr uint64_t kReadBytes = 4u << 20;

constexpr absl::string_view kKindNames[] = {"downsample", "drop_points", "empty_run", "delete_run"};

absl::string_view NameOf(RetentionStep::Kind kind) { return kKindNames[static_cast<int>(kind)]; }

// The rest of the store, for one pass.
struct Parts {
  const DatabaseHolder* holder = nullptr;
  Writer* writer = nullptr;
  Folder* folder = nullptr;
  absl::flat_hash_map<uint32_t, uint64_t>* replaced = nullptr;  // by run, in bytes
};

class Pass {
 public:
  Pass(const Parts& parts, const RetentionOptions& options, absl::Time now,
       const DiskStore::RetentionHooks& hooks)
      : parts_(parts), options_(options), now_(now), hooks_(hooks) {}

  absl::Status Run();
  const RetentionResult& result() const { return result_; }  // also of a pass that failed

 private:
  // What a walk over chunks does with each of them.
  using Treat = absl::FunctionRef<absl::Status(
      absl::string_view key, Window window, absl::string_view bytes, rocksdb::WriteBatch* batch)>;

  absl::StatusOr<std::vector<RunFacts>> ReadFacts(uint64_t* store_bytes);
  // Leaves a run with an unreadable row as it is: one bad row must not keep the disk full.
  void LeaveAlone(const std::string& run, absl::string_view action, const absl::Status& why);
  absl::Status Do(const RetentionStep& step);
  absl::Status Downsample(uint32_t run, const RetentionStep& step);
  absl::Status Drop(uint32_t run, const RetentionStep& step);
  absl::Status EmptyRun(const std::string& run);
  // Treats, in batches, the attempt's chunks whose windows end in [after, step.before_step), of all
  // series from `first_series` on.
  absl::Status ForChunks(uint32_t run, const RetentionStep& step, uint32_t first_series,
                         int64_t after, Treat treat);
  absl::Status PutRetention(uint32_t run, uint32_t attempt,
                            absl::FunctionRef<void(RetentionRow*)> change);
  absl::Status Commit(const ReadView& view, rocksdb::WriteBatch* batch, uint64_t deletions);
  absl::Status MaybeReclaim(uint32_t run, const RetentionStep& step);

  const Parts parts_;
  const RetentionOptions& options_;
  const absl::Time now_;
  const DiskStore::RetentionHooks& hooks_;
  RetentionResult result_;
  rocksdb::ColumnFamilyHandle* family_ = nullptr;   // of chunks, while they are walked
  absl::flat_hash_map<std::string, uint32_t> ids_;  // of runs, when the facts were last read
  absl::flat_hash_map<uint32_t, uint64_t> bytes_;   // of runs, when the facts were last read
  absl::flat_hash_set<std::string> left_alone_;     // runs that could not be treated
};

absl::Status Pass::Run() {
  if (!options_.any()) return absl::OkStatus();
  for (;;) {
    uint64_t store_bytes = 0;
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<RunFacts> runs, ReadFacts(&store_bytes));
    const std::optional<RetentionStep> step = NextRetentionStep(options_, runs, store_bytes, now_);
    if (!step.has_value()) {
      result_.over_budget = options_.bytes_max > 0 && store_bytes > options_.bytes_max;
      return absl::OkStatus();
    }
    const absl::Status done = Do(*step);
    if (absl::IsAborted(done) || absl::IsUnavailable(done) || absl::IsResourceExhausted(done)) {
      return done;
    }
    if (!done.ok()) LeaveAlone(step->run, NameOf(step->kind), done);
  }
}

void Pass::LeaveAlone(const std::string& run, absl::string_view action, const absl::Status& why) {
  left_alone_.insert(run);
  base::LogWarning("store", "retention leaves a run alone",
                   {{"run", run}, {"action", std::string(action)}, {"error", why.ToString()}});
}

absl::StatusOr<std::vector<RunFacts>> Pass::ReadFacts(uint64_t* store_bytes) {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*parts_.holder));
  *store_bytes = LiveBytes(view.database());
  ids_.clear();
  bytes_.clear();
  std::vector<RunFacts> all;
  FORESHOCK_RETURN_IF_ERROR(view.ScanRuns([&](uint32_t id, const model::RunRow& row) {
    if (row.pinned() || left_alone_.contains(row.name())) return absl::OkStatus();
    ids_[row.name()] = id;
    absl::StatusOr<RunFacts> facts = ReadRunFacts(view, id, row, options_, now_);
    if (absl::IsDataLoss(facts.status())) {
      LeaveAlone(row.name(), "read its facts", facts.status());
      return absl::OkStatus();
    }
    FORESHOCK_RETURN_IF_ERROR(facts.status());
    bytes_[id] = facts->bytes;
    all.push_back(*std::move(facts));
    return absl::OkStatus();
  }));
  return all;
}

absl::Status Pass::Do(const RetentionStep& step) {
  const uint32_t run = ids_[step.run];
  base::LogInfo("store", absl::StrCat("retention: ", NameOf(step.kind)),
                {{"run", step.run},
                 {"because_of", std::string(step.reason)},
                 {"attempt", absl::StrCat(step.attempt)},
                 {"before_step", absl::StrCat(step.before_step)}});
  switch (step.kind) {
    case RetentionStep::Kind::kDownsample:
      // Only chunks are treated, so all that the run holds goes into chunks first.
      FORESHOCK_RETURN_IF_ERROR(parts_.folder->Fold(run));
      FORESHOCK_RETURN_IF_ERROR(Downsample(run, step));
      return MaybeReclaim(run, step);
    case RetentionStep::Kind::kDropPoints:
      FORESHOCK_RETURN_IF_ERROR(parts_.folder->Fold(run));
      FORESHOCK_RETURN_IF_ERROR(Drop(run, step));
      return MaybeReclaim(run, step);
    case RetentionStep::Kind::kEmptyRun:
      FORESHOCK_RETURN_IF_ERROR(EmptyRun(step.run));
      ++result_.runs_emptied;
      return absl::OkStatus();
    case RetentionStep::Kind::kDeleteRun:
      FORESHOCK_RETURN_IF_ERROR(hooks_.delete_run(step.run));
      ++result_.runs_deleted;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Pass::EmptyRun(const std::string& run) {
  constexpr Family kEmptied[] = {Family::kOpen, Family::kHeads, Family::kChunks};
  FORESHOCK_ASSIGN_OR_RETURN(const Writer::Removed removed, parts_.writer->EmptyRun(run));
  parts_.folder->WaitForFold();
  const absl::Status reclaimed = Reclaim(*parts_.holder, removed.run, kEmptied);
  if (!reclaimed.ok()) {
    base::LogWarning("store", "the space of an emptied run is given back later",
                     {{"run", run}, {"error", reclaimed.ToString()}});
  }
  return absl::OkStatus();
}

absl::Status Pass::Commit(const ReadView& view, rocksdb::WriteBatch* batch, uint64_t deletions) {
  if (!hooks_.go_on()) return absl::AbortedError("store: retention was told to stop");
  return parts_.writer->Commit(view.database(), batch, deletions);
}

absl::Status Pass::PutRetention(uint32_t run, uint32_t attempt,
                                absl::FunctionRef<void(RetentionRow*)> change) {
  const uint64_t deletions = parts_.writer->deletions();
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*parts_.holder));
  FORESHOCK_ASSIGN_OR_RETURN(RetentionRow row, ReadRetention(view, run, attempt));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(run));
  for (const model::AttemptRow& of_run : attempts) {
    if (of_run.number() != attempt) continue;
    FORESHOCK_ASSIGN_OR_RETURN(row.newest_unix_ns, NewestTime(view, run, of_run));
  }
  change(&row);
  rocksdb::WriteBatch batch;
  FORESHOCK_RETURN_IF_ERROR(PutRow(view.database().family(Family::kRows),
                                   RetentionKey(run, attempt), EncodeRetention(row), &batch));
  return Commit(view, &batch, deletions);
}

absl::Status Pass::Downsample(uint32_t run, const RetentionStep& step) {
  int64_t after = 0;
  FORESHOCK_RETURN_IF_ERROR(PutRetention(run, step.attempt, [&](RetentionRow* row) {
    after = row->downsampled_before;
    row->raw_from = std::max(row->raw_from, step.before_step);
  }));
  uint64_t* const replaced = &(*parts_.replaced)[run];
  std::vector<ChunkPoint> points;
  FORESHOCK_RETURN_IF_ERROR(
      ForChunks(run, step, kStepTable + 1, after,
                [&](absl::string_view key, Window window, absl::string_view bytes,
                    rocksdb::WriteBatch* batch) -> absl::Status {
                  if (KindOf(bytes) == ChunkKind::kDownsampled) return absl::OkStatus();
                  points.clear();
                  if (!DecodeChunk(bytes, window.first, &points)) {
                    return CorruptRow(FamilyName(Family::kChunks), key, PointRows::kName, bytes);
                  }
                  std::string parts = EncodeParts(window, points);
                  // The parts of a chunk of few points may be larger than the chunk. It stays.
                  if (parts.size() >= bytes.size()) return absl::OkStatus();
                  ++result_.chunks_downsampled;
                  result_.points_downsampled += points.size();
                  *replaced += bytes.size() - parts.size();
                  return PutRow(family_, std::string(key), std::move(parts), batch);
                }));
  return PutRetention(run, step.attempt, [&](RetentionRow* row) {
    row->downsampled_before = std::max(row->downsampled_before, step.before_step);
  });
}

absl::Status Pass::Drop(uint32_t run, const RetentionStep& step) {
  int64_t after = 0;
  FORESHOCK_RETURN_IF_ERROR(PutRetention(run, step.attempt, [&](RetentionRow* row) {
    after = row->dropped_before;
    row->raw_from = std::max(row->raw_from, step.before_step);
  }));
  uint64_t* const replaced = &(*parts_.replaced)[run];
  FORESHOCK_RETURN_IF_ERROR(
      ForChunks(run, step, kStepTable, after,
                [&](absl::string_view key, Window window, absl::string_view bytes,
                    rocksdb::WriteBatch* batch) -> absl::Status {
                  ChunkSummary summary;
                  if (KindOf(bytes) != ChunkKind::kSteps &&
                      DecodeChunkSummary(bytes, window.first, &summary)) {
                    result_.points_dropped += summary.count;
                  }
                  *replaced += bytes.size();
                  return FromRocks(batch->Delete(family_, rocksdb::Slice(key.data(), key.size())),
                                   "store: cannot batch a deletion");
                }));
  return PutRetention(run, step.attempt, [&](RetentionRow* row) {
    row->dropped_before = std::max(row->dropped_before, step.before_step);
  });
}

absl::Status Pass::ForChunks(uint32_t run, const RetentionStep& step, uint32_t first_series,
                             int64_t after, Treat treat) {
  std::string cursor = ChunkBoundary(run, first_series, step.attempt, after);
  for (bool more = true; more;) {
    base::MutexLock lock(parts_.folder->chunks_mutex());
    const uint64_t deletions = parts_.writer->deletions();
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*parts_.holder));
    family_ = view.database().family(Family::kChunks);
    rocksdb::WriteBatch batch;
    uint64_t read = 0;
    RowIterator chunks(view, Family::kChunks, RunPrefix(run));
    chunks.Seek(cursor);
    while (chunks.Valid() && read < kReadBytes) {
      ChunkId id;
      if (!DecodeChunkKey(chunks.key(), &id)) {
        return CorruptRow(FamilyName(Family::kChunks), chunks.key(), "key", "");
      }
      // In each series the chunks of lower attempts come first, then ours, then those of higher.
      if (id.attempt != step.attempt || id.window.last() < after) {
        const bool before_ours = id.attempt <= step.attempt;
        chunks.Seek(ChunkBoundary(run, id.series + (before_ours ? 0 : 1), step.attempt, after));
        continue;
      }
      if (id.window.last() >= step.before_step) {
        chunks.Seek(ChunkBoundary(run, id.series + 1, step.attempt, after));
        continue;
      }
      FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view bytes, chunks.Value());
      read += bytes.size();
      FORESHOCK_RETURN_IF_ERROR(treat(chunks.key(), id.window, bytes, &batch));
      chunks.Next();
    }
    FORESHOCK_RETURN_IF_ERROR(chunks.status());
    more = chunks.Valid();
    if (more) cursor = std::string(chunks.key());
    FORESHOCK_RETURN_IF_ERROR(Commit(view, &batch, deletions));
  }
  return absl::OkStatus();
}

// Giving space back rewrites all of the run. So it waits until a quarter of the run has been
// replaced, unless the next decision depends on the bytes that it gives back.
absl::Status Pass::MaybeReclaim(uint32_t run, const RetentionStep& step) {
  uint64_t& replaced = (*parts_.replaced)[run];
  const bool budget = step.reason == "bytes_max" || step.reason == "run_bytes_max";
  if (!budget && replaced < bytes_[run] / 4) return absl::OkStatus();
  replaced = 0;
  return Reclaim(*parts_.holder, run, {});
}

}  // namespace

absl::StatusOr<RetentionResult> Retainer::Retain(const RetentionOptions& options, absl::Time now,
                                                 const DiskStore::RetentionHooks& hooks) {
  FORESHOCK_RETURN_IF_ERROR(writer_->CheckMayWrite());
  base::MutexLock lock(&mutex_);
  Pass pass({holder_, writer_, folder_, &replaced_}, options, now, hooks);
  const absl::Status done = pass.Run();
  const RetentionResult& result = pass.result();
  points_downsampled_ += result.points_downsampled;
  points_dropped_ += result.points_dropped;
  runs_dropped_ += result.runs_emptied + result.runs_deleted;
  FORESHOCK_RETURN_IF_ERROR(done);
  return result;
}

}  // namespace foreshock::store
