#include "daemon/store/fold.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/chunk_merger.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/head_reads.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"

namespace foreshock::store {
namespace {

// A batch of this size is written. It takes some milliseconds of the writer's time.
constexpr size_t kBatchBytes = 2u << 20;

absl::Status CorruptHead(absl::string_view key, absl::string_view bytes) {
  return CorruptRow(FamilyName(Family::kHeads), key, "head", bytes);
}

}  // namespace

absl::StatusOr<RunFold> RunFold::Of(const ReadView& view, uint32_t run, uint64_t points_max) {
  RunFold fold(&view, run);
  uint64_t points = 0;
  FORESHOCK_RETURN_IF_ERROR(
      view.ScanPrefix(Family::kHeads, RunPrefix(run),
                      [&](absl::string_view key, absl::string_view bytes) -> absl::StatusOr<bool> {
                        HeadId id;
                        HeadReader head;
                        if (!DecodeHeadKey(key, &id) || !head.Open(bytes))
                          return CorruptHead(key, bytes);
                        if (fold.attempts_.empty() || fold.attempts_.back().number != id.attempt) {
                          fold.attempts_.push_back({.number = id.attempt, .first_seq = id.seq});
                        }
                        Attempt& attempt = fold.attempts_.back();
                        attempt.last_seq = id.seq;
                        attempt.heads.push_back({head.row(), std::string(bytes)});
                        attempt.points += head.points();
                        points += head.points();
                        fold.complete_ = points < points_max;
                        return fold.complete_;
                      }));
  return fold;
}

absl::StatusOr<RunFold::Columns> RunFold::Transpose(absl::Span<const Head> heads) {
  Columns columns;
  std::vector<uint32_t> counts;
  for (const Head& head : heads) {
    HeadReader reader;
    HeadPoint point;
    bool whole = reader.Open(head.bytes);
    while (whole && reader.Next(&point)) {
      if (point.series >= counts.size()) counts.resize(point.series + size_t{1});
      ++counts[point.series];
    }
    if (!whole || !reader.whole()) {
      return absl::DataLossError("store: corrupt head in family heads, its checksum is right");
    }
  }
  columns.starts.resize(counts.size() + 1);
  for (size_t s = 0; s < counts.size(); ++s) columns.starts[s + 1] = columns.starts[s] + counts[s];
  columns.cells.resize(columns.starts.back());
  std::vector<uint32_t> next(columns.starts.begin(), columns.starts.end() - 1);
  for (size_t h = 0; h < heads.size(); ++h) {
    HeadReader reader;
    HeadPoint point;
    reader.Open(heads[h].bytes);
    while (reader.Next(&point)) {
      columns.cells[next[point.series]++] = {static_cast<uint32_t>(h), point.flags, point.value};
    }
  }
  return columns;
}

absl::Status RunFold::Write(Commit commit, absl::FunctionRef<absl::Status()> go_on) {
  for (Attempt& attempt : attempts_) {
    FORESHOCK_RETURN_IF_ERROR(WriteAttempt(attempt, commit, go_on));
    attempt.heads.clear();
  }
  return absl::OkStatus();
}

absl::Status RunFold::WriteAttempt(const Attempt& attempt, Commit commit,
                                   absl::FunctionRef<absl::Status()> go_on) {
  int64_t last_step = std::numeric_limits<int64_t>::min();
  std::vector<model::StepRow> step_rows;
  for (const Head& head : attempt.heads) {
    step_rows.push_back(head.row);
    last_step = std::max(last_step, head.row.step);
  }
  KeepNewest(&step_rows);

  rocksdb::WriteBatch batch;
  ChunkMerger<StepRows> step_merger(*view_, run_, attempt.number, last_step, &batch);
  FORESHOCK_RETURN_IF_ERROR(step_merger.Merge(kStepTable, step_rows));

  FORESHOCK_ASSIGN_OR_RETURN(const Columns columns, Transpose(attempt.heads));
  ChunkMerger<PointRows> merger(*view_, run_, attempt.number, last_step, &batch);
  std::vector<ChunkPoint> points;
  for (size_t s = 0; s + 1 < columns.starts.size(); ++s) {
    if (columns.starts[s] == columns.starts[s + 1]) continue;
    FORESHOCK_RETURN_IF_ERROR(go_on());
    points.clear();
    for (uint32_t c = columns.starts[s]; c < columns.starts[s + 1]; ++c) {
      const Cell& cell = columns.cells[c];
      points.push_back({attempt.heads[cell.head].row.step, cell.value, cell.flags});
    }
    KeepNewest(&points);
    FORESHOCK_RETURN_IF_ERROR(merger.Merge(static_cast<uint32_t>(s), points));
    if (batch.GetDataSize() < kBatchBytes) continue;
    FORESHOCK_RETURN_IF_ERROR(commit(&batch, 0, 0));
    batch.Clear();
  }
  if (merger.left_out() > 0) {
    base::LogEvery("store late", base::LogLevel::kWarning, "store",
                   "points came too late, their steps have been downsampled; they are left out",
                   {{"points", absl::StrCat(merger.left_out())}});
  }
  // Ranges of successive folds do not overlap; n overlapping ones would cost a reader n^2.
  FORESHOCK_RETURN_IF_ERROR(
      FromRocks(batch.DeleteRange(view_->database().family(Family::kHeads),
                                  HeadKey({run_, attempt.number, attempt.first_seq}),
                                  HeadKey({run_, attempt.number, attempt.last_seq + 1})),
                "store: cannot batch a deletion"));
  return commit(&batch, attempt.heads.size(), attempt.points);
}

}  // namespace foreshock::store
