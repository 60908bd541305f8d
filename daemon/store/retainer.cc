#include "daemon/store/retainer.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/point_reads.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/seal.h"
#include "daemon/store/usage.h"

namespace foreshock::store {
namespace {

// What is read and written between two looks at whether to go on: some tens of milliseconds.
constexpr uint64_t kReadBytes = 4u << 20;

constexpr absl::string_view kKindNames[] = {"downsample", "drop_points", "empty_run", "delete_run"};

absl::string_view NameOf(RetentionStep::Kind kind) { return kKindNames[static_cast<int>(kind)]; }

bool SaysItEnded(v1::RunState state) {
  return state == v1::RUN_STATE_FINISHED || state == v1::RUN_STATE_FAILED ||
         state == v1::RUN_STATE_PREEMPTED;
}

// The first step of the attempt, from `first` on, that is not older than `age`; steps whose time is
// not known count as young. last + 1 if there is none.
absl::StatusOr<int64_t> FirstYounger(const ReadView& view, uint32_t run, uint32_t attempt,
                                     int64_t first, int64_t last, absl::Time since) {
  int64_t found = last + 1;
  FORESHOCK_RETURN_IF_ERROR(ReadSteps(view, run, {first, last, attempt}, [&](const StepRow& row) {
    if (row.time_unix_ns != 0 && absl::FromUnixNanos(row.time_unix_ns) < since) return true;
    found = row.step;
    return false;
  }));
  return found;
}

absl::StatusOr<bool> HasSeries(const ReadView& view, uint32_t run) {
  RowIterator rows(view, Family::kRows, KindPrefix(run, RowKind::kSeries));
  rows.Seek(KindPrefix(run, RowKind::kSeries));
  const bool any = rows.Valid();
  FORESHOCK_RETURN_IF_ERROR(rows.status());
  return any;
}

}  // namespace

absl::StatusOr<RetentionRow> ReadRetention(const ReadView& view, uint32_t run, uint32_t attempt) {
  const std::string key = RetentionKey(run, attempt);
  RetentionRow row;
  FORESHOCK_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, view.Get(Family::kRows, key));
  if (bytes.has_value() && !DecodeRetention(*bytes, &row)) {
    return CorruptRow(FamilyName(Family::kRows), key, "retention row", *bytes);
  }
  return row;
}

absl::StatusOr<int64_t> NewestTime(const ReadView& view, uint32_t run,
                                   const model::AttemptRow& attempt) {
  FORESHOCK_ASSIGN_OR_RETURN(const RetentionRow row, ReadRetention(view, run, attempt.number()));
  int64_t newest = row.newest_unix_ns;
  const int64_t last = attempt.last_step();
  FORESHOCK_RETURN_IF_ERROR(
      ReadSteps(view, run, {last, last, attempt.number()}, [&newest](const StepRow& step) {
        newest = std::max(newest, step.time_unix_ns);
        return true;
      }));
  return newest;
}

absl::Status Retainer::Run() {
  if (!options_.any()) return absl::OkStatus();
  for (;;) {
    uint64_t store_bytes = 0;
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<RunFacts> runs, Look(&store_bytes));
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

// One bad row must not keep the disk full.
void Retainer::LeaveAlone(const std::string& run, absl::string_view action,
                          const absl::Status& why) {
  left_alone_.insert(run);
  LogWarning("store", "retention leaves a run alone",
             {{"run", run}, {"action", std::string(action)}, {"error", why.ToString()}});
}

absl::StatusOr<std::vector<RunFacts>> Retainer::Look(uint64_t* store_bytes) {
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*deps_.holder));
  *store_bytes = LiveBytes(view.database());
  ids_.clear();
  bytes_.clear();
  std::vector<RunFacts> facts;
  FORESHOCK_RETURN_IF_ERROR(
      view.ScanPrefix(Family::kRows, KindPrefix(kStoreRun, RowKind::kRun),
                      [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
                        uint32_t id = 0;
                        model::RunRow row;
                        if (!DecodeRun(value, &id, &row)) {
                          return CorruptRow(FamilyName(Family::kRows), key, "run row", value);
                        }
                        if (row.pinned() || left_alone_.contains(row.name())) return true;
                        ids_[row.name()] = id;
                        absl::StatusOr<RunFacts> run = LookAtRun(view, id, row);
                        if (absl::IsDataLoss(run.status())) {
                          LeaveAlone(row.name(), "look", run.status());
                          return true;
                        }
                        FORESHOCK_RETURN_IF_ERROR(run.status());
                        bytes_[id] = run->bytes;
                        facts.push_back(*std::move(run));
                        return true;
                      }));
  return facts;
}

absl::StatusOr<RunFacts> Retainer::LookAtRun(const ReadView& view, uint32_t id,
                                             const model::RunRow& row) const {
  RunFacts run{.name = row.name(), .newest = absl::FromUnixNanos(row.created_unix_ns())};
  run.bytes = RunBytes(view.database(), id);
  FORESHOCK_ASSIGN_OR_RETURN(const bool has_series, HasSeries(view, id));
  run.empty = !has_series;
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, view.Attempts(id));
  for (const model::AttemptRow& attempt : attempts) {
    run.newest = std::max(run.newest, absl::FromUnixNanos(attempt.started_unix_ns()));
    run.ended = SaysItEnded(attempt.state());
    if (!attempt.has_first_step() || !attempt.has_last_step()) continue;
    FORESHOCK_ASSIGN_OR_RETURN(const AttemptFacts found, LookAtAttempt(view, id, attempt));
    run.attempts.push_back(found);
    FORESHOCK_ASSIGN_OR_RETURN(const int64_t newest, NewestTime(view, id, attempt));
    run.newest = std::max(run.newest, absl::FromUnixNanos(newest));
  }
  return run;
}

absl::StatusOr<AttemptFacts> Retainer::LookAtAttempt(const ReadView& view, uint32_t run,
                                                     const model::AttemptRow& row) const {
  FORESHOCK_ASSIGN_OR_RETURN(const RetentionRow done, ReadRetention(view, run, row.number()));
  AttemptFacts facts{
      .number = row.number(), .first_step = row.first_step(), .last_step = row.last_step()};
  facts.downsampled_before = std::max(row.first_step(), done.downsampled_before);
  facts.dropped_before = std::max(row.first_step(), done.dropped_before);
  facts.raw_age_step = facts.downsampled_before;
  facts.kept_age_step = facts.dropped_before;
  if (options_.raw_for > absl::ZeroDuration()) {
    FORESHOCK_ASSIGN_OR_RETURN(facts.raw_age_step,
                               FirstYounger(view, run, row.number(), facts.downsampled_before,
                                            row.last_step(), now_ - options_.raw_for));
  }
  if (options_.downsampled_for > absl::ZeroDuration()) {
    FORESHOCK_ASSIGN_OR_RETURN(facts.kept_age_step,
                               FirstYounger(view, run, row.number(), facts.dropped_before,
                                            row.last_step(), now_ - options_.downsampled_for));
  }
  return facts;
}

absl::Status Retainer::Do(const RetentionStep& step) {
  const uint32_t run = ids_[step.run];
  LogInfo("store", absl::StrCat("retention: ", NameOf(step.kind)),
          {{"run", step.run},
           {"because_of", std::string(step.reason)},
           {"attempt", absl::StrCat(step.attempt)},
           {"before_step", absl::StrCat(step.before_step)}});
  switch (step.kind) {
    case RetentionStep::Kind::kDownsample:
      FORESHOCK_RETURN_IF_ERROR(deps_.fold(run));
      FORESHOCK_RETURN_IF_ERROR(Downsample(run, step));
      return MaybeReclaim(run, step);
    case RetentionStep::Kind::kDropPoints:
      FORESHOCK_RETURN_IF_ERROR(deps_.fold(run));
      FORESHOCK_RETURN_IF_ERROR(Drop(run, step));
      return MaybeReclaim(run, step);
    case RetentionStep::Kind::kEmptyRun:
      FORESHOCK_RETURN_IF_ERROR(deps_.empty_run(step.run));
      ++result_.runs_emptied;
      return absl::OkStatus();
    case RetentionStep::Kind::kDeleteRun:
      FORESHOCK_RETURN_IF_ERROR(deps_.delete_run(step.run));
      ++result_.runs_deleted;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Retainer::PutRetention(uint32_t run, uint32_t attempt,
                                    absl::FunctionRef<void(RetentionRow*)> change) {
  const uint64_t deletions = deps_.deletions();
  FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*deps_.holder));
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
  return deps_.commit(&batch, deletions);
}

absl::Status Retainer::Downsample(uint32_t run, const RetentionStep& step) {
  int64_t after = 0;
  FORESHOCK_RETURN_IF_ERROR(PutRetention(run, step.attempt, [&](RetentionRow* row) {
    after = row->downsampled_before;
    row->raw_from = std::max(row->raw_from, step.before_step);
  }));
  uint64_t* const replaced = &(*deps_.replaced)[run];
  std::vector<ChunkPoint> points;
  FORESHOCK_RETURN_IF_ERROR(
      ForChunks(run, step, kStepTable + 1, after,
                [&](std::string_view key, Window window, std::string_view bytes,
                    rocksdb::WriteBatch* batch) -> absl::Status {
                  if (KindOf(bytes) == ChunkKind::kDownsampled) return absl::OkStatus();
                  points.clear();
                  if (!DecodeChunk(bytes, window.first, &points)) {
                    return CorruptRow(FamilyName(Family::kChunks), key, PointRows::kName, bytes);
                  }
                  std::string parts = EncodeParts(window, points);
                  // A chunk of few points may be smaller than its parts would be; it stays as it
                  // is.
                  if (parts.size() >= bytes.size()) return absl::OkStatus();
                  ++result_.chunks_downsampled;
                  result_.points_downsampled += points.size();
                  *replaced += bytes.size() - parts.size();
                  return PutChunk(key, std::move(parts), batch);
                }));
  return PutRetention(run, step.attempt, [&](RetentionRow* row) {
    row->downsampled_before = std::max(row->downsampled_before, step.before_step);
  });
}

absl::Status Retainer::Drop(uint32_t run, const RetentionStep& step) {
  int64_t after = 0;
  FORESHOCK_RETURN_IF_ERROR(PutRetention(run, step.attempt, [&](RetentionRow* row) {
    after = row->dropped_before;
    row->raw_from = std::max(row->raw_from, step.before_step);
  }));
  uint64_t* const replaced = &(*deps_.replaced)[run];
  FORESHOCK_RETURN_IF_ERROR(
      ForChunks(run, step, kStepTable, after,
                [&](std::string_view key, Window window, std::string_view bytes,
                    rocksdb::WriteBatch* batch) -> absl::Status {
                  ChunkSummary summary;
                  if (KindOf(bytes) != ChunkKind::kSteps &&
                      DecodeChunkSummary(bytes, window.first, &summary)) {
                    result_.points_dropped += summary.count;
                  }
                  *replaced += bytes.size();
                  return DeleteChunk(key, batch);
                }));
  return PutRetention(run, step.attempt, [&](RetentionRow* row) {
    row->dropped_before = std::max(row->dropped_before, step.before_step);
  });
}

absl::Status Retainer::ForChunks(uint32_t run, const RetentionStep& step, uint32_t first_series,
                                 int64_t after, Treat treat) {
  std::string cursor = ChunkBoundary(run, first_series, step.attempt, after);
  for (bool more = true; more;) {
    // Nobody else writes chunks between the look and the commit.
    MutexLock lock(deps_.chunks);
    const uint64_t deletions = deps_.deletions();
    FORESHOCK_ASSIGN_OR_RETURN(const ReadView view, ReadView::Of(*deps_.holder));
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
      // Of a series: other attempts first, then ours up to the step, then others again.
      if (id.attempt != step.attempt || id.window.last() < after) {
        const bool before_ours = id.attempt <= step.attempt;
        chunks.Seek(ChunkBoundary(run, id.series + (before_ours ? 0 : 1), step.attempt, after));
        continue;
      }
      if (id.window.last() >= step.before_step) {
        chunks.Seek(ChunkBoundary(run, id.series + 1, step.attempt, after));
        continue;
      }
      FORESHOCK_ASSIGN_OR_RETURN(const std::string_view bytes, chunks.Value());
      read += bytes.size();
      FORESHOCK_RETURN_IF_ERROR(treat(chunks.key(), id.window, bytes, &batch));
      chunks.Next();
    }
    FORESHOCK_RETURN_IF_ERROR(chunks.status());
    more = chunks.Valid();
    if (more) cursor = std::string(chunks.key());
    FORESHOCK_RETURN_IF_ERROR(deps_.commit(&batch, deletions));
  }
  return absl::OkStatus();
}

absl::Status Retainer::PutChunk(std::string_view key, std::string bytes,
                                rocksdb::WriteBatch* batch) const {
  return PutRow(family_, std::string(key), std::move(bytes), batch);
}

absl::Status Retainer::DeleteChunk(std::string_view key, rocksdb::WriteBatch* batch) const {
  return FromRocks(batch->Delete(family_, rocksdb::Slice(key.data(), key.size())),
                   "store: cannot batch a deletion");
}

// A compaction rewrites all of the run, so it waits until a quarter of it is worth it, unless the
// next decision hangs on what it gives back.
absl::Status Retainer::MaybeReclaim(uint32_t run, const RetentionStep& step) {
  uint64_t& replaced = (*deps_.replaced)[run];
  const bool budget = step.reason == "bytes_max" || step.reason == "run_bytes_max";
  if (!budget && replaced < bytes_[run] / 4) return absl::OkStatus();
  replaced = 0;
  return deps_.reclaim(run);
}

}  // namespace foreshock::store
