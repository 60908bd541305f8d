#include "daemon/store/chunk_merger.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/head_reads.h"
#include "daemon/store/rocks_status.h"
#include "daemon/store/seal.h"

namespace foreshock::store {
namespace {

constexpr int64_t kLastStep = std::numeric_limits<int64_t>::max();

// Counts the rows at the front that lie at or before `last`.
template <typename Row>
size_t CountThrough(absl::Span<const Row> rows, int64_t last) {
  const auto after = [](int64_t step, const Row& row) { return step < row.step; };
  return static_cast<size_t>(std::upper_bound(rows.begin(), rows.end(), last, after) -
                             rows.begin());
}

}  // namespace

template <typename Rows>
ChunkMerger<Rows>::ChunkMerger(const ReadView& view, uint32_t run, uint32_t attempt,
                               int64_t complete_through, rocksdb::WriteBatch* batch)
    : view_(view),
      run_(run),
      attempt_(attempt),
      complete_through_(complete_through),
      batch_(batch),
      family_(view.database().family(Family::kChunks)) {}

template <typename Rows>
absl::Status ChunkMerger<Rows>::Merge(uint32_t series, absl::Span<const Row> rows) {
  series_ = series;
  tail_.clear();
  absorbed_.clear();
  left_known_ = false;
  left_closed_ = false;
  chunks_.emplace(view_, Family::kChunks, ChunkPrefix(run_, series, attempt_));
  chunks_->SeekToLast();
  FORESHOCK_ASSIGN_OR_RETURN(std::optional<Chunk> last, At());
  if (!last.has_value()) {
    left_known_ = true;
  } else {
    // Late rows of an old window are rare.
    const size_t old = CountThrough(rows, last->window.first - 1);
    if (old > 0 && rows.front().step < last->window.first) {
      FORESHOCK_RETURN_IF_ERROR(MergeOld(rows.first(old)));
      rows.remove_prefix(old);
      left_closed_ = true;
    }
    const size_t inside = CountThrough(rows, last->window.last());
    if (last->downsampled) {
      left_out_ += inside;
      left_closed_ = true;
    } else {
      if (inside > 0) FORESHOCK_RETURN_IF_ERROR(Overlay(rows.first(inside), &*last));
      tail_.push_back(*std::move(last));
    }
    rows.remove_prefix(inside);
    if (!tail_.empty()) {
      FORESHOCK_RETURN_IF_ERROR(Grow(rows.empty() ? kLastStep : rows.front().step));
    }
  }
  while (!rows.empty()) {
    Chunk chunk{.window = Window::Of(rows.front().step, kBaseExponent), .changed = true};
    const size_t inside = CountThrough(rows, chunk.window.last());
    chunk.rows.assign(rows.begin(), rows.begin() + inside);
    chunk.count = static_cast<uint32_t>(inside);
    rows.remove_prefix(inside);
    tail_.push_back(std::move(chunk));
    FORESHOCK_RETURN_IF_ERROR(Grow(rows.empty() ? kLastStep : rows.front().step));
  }
  for (const Window window : absorbed_) FORESHOCK_RETURN_IF_ERROR(Delete(window));
  for (const Chunk& chunk : tail_) {
    if (chunk.changed) FORESHOCK_RETURN_IF_ERROR(Put(chunk));
  }
  return absl::OkStatus();
}

template <typename Rows>
absl::StatusOr<std::optional<typename ChunkMerger<Rows>::Chunk>> ChunkMerger<Rows>::At() {
  if (!chunks_->Valid()) {
    FORESHOCK_RETURN_IF_ERROR(chunks_->status());
    return std::nullopt;
  }
  ChunkId id;
  if (!DecodeChunkKey(chunks_->key(), &id)) {
    return CorruptRow(FamilyName(Family::kChunks), chunks_->key(), "key", "");
  }
  FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view bytes, chunks_->Value());
  Chunk chunk{.window = id.window,
              .bytes = std::string(bytes),
              .downsampled = KindOf(bytes) == ChunkKind::kDownsampled,
              .stored = true};
  if (!DecodeChunkCount(bytes, &chunk.count)) {
    return CorruptRow(FamilyName(Family::kChunks), chunks_->key(), Rows::kName, bytes);
  }
  return chunk;
}

template <typename Rows>
absl::Status ChunkMerger<Rows>::Load(Chunk* chunk) const {
  if (!chunk->rows.empty() || !chunk->stored) return absl::OkStatus();
  if (Rows::Decode(chunk->bytes, chunk->window.first, &chunk->rows)) return absl::OkStatus();
  const std::string key = ChunkKey({run_, series_, attempt_, chunk->window});
  return CorruptRow(FamilyName(Family::kChunks), key, Rows::kName, chunk->bytes);
}

template <typename Rows>
absl::Status ChunkMerger<Rows>::Overlay(absl::Span<const Row> rows, Chunk* chunk) const {
  FORESHOCK_RETURN_IF_ERROR(Load(chunk));
  chunk->rows.insert(chunk->rows.end(), rows.begin(), rows.end());
  KeepNewest(&chunk->rows);
  chunk->count = static_cast<uint32_t>(chunk->rows.size());
  chunk->changed = true;
  return absl::OkStatus();
}

template <typename Rows>
absl::Status ChunkMerger<Rows>::MergeOld(absl::Span<const Row> rows) {
  while (!rows.empty()) {
    const int64_t step = rows.front().step;
    chunks_->Seek(ChunkBoundary(run_, series_, attempt_, step));
    FORESHOCK_ASSIGN_OR_RETURN(std::optional<Chunk> chunk, At());
    if (!chunk.has_value() || !chunk->window.Holds(step)) {
      chunk = Chunk{.window = Window::Of(step, kBaseExponent), .changed = true};
    }
    const size_t inside = CountThrough(rows, chunk->window.last());
    if (chunk->downsampled) {
      left_out_ += inside;
    } else {
      FORESHOCK_RETURN_IF_ERROR(Overlay(rows.first(inside), &*chunk));
      FORESHOCK_RETURN_IF_ERROR(Put(*chunk));
    }
    rows.remove_prefix(inside);
  }
  return absl::OkStatus();
}

template <typename Rows>
absl::Status ChunkMerger<Rows>::Grow(int64_t next) {
  size_t best = tail_.size() - 1;
  Window best_window = tail_.back().window;
  const int64_t first = tail_.back().window.first;
  for (uint8_t exponent = best_window.exponent + 1; exponent <= Window::kExponentMax; ++exponent) {
    const Window larger = Window::Of(first, exponent);
    if (larger.last() > complete_through_ || next <= larger.last()) break;
    const size_t before = tail_.size();
    FORESHOCK_ASSIGN_OR_RETURN(const bool reached, ReachLeft(larger.first));
    best += tail_.size() - before;
    if (!reached) break;
    size_t from = tail_.size();
    uint64_t rows = 0;
    while (from > 0 && tail_[from - 1].window.first >= larger.first) rows += tail_[--from].count;
    if (rows > kChunkRowsMax) break;
    if (from < best) {
      best = from;
      best_window = larger;
    }
  }
  if (best == tail_.size() - 1) return absl::OkStatus();
  return Join(best, best_window);
}

template <typename Rows>
absl::StatusOr<bool> ChunkMerger<Rows>::ReachLeft(int64_t first) {
  while (!left_known_ && tail_.front().window.first > first) {
    if (left_closed_) return false;
    chunks_->SeekBack(ChunkBoundary(run_, series_, attempt_, tail_.front().window.first));
    FORESHOCK_ASSIGN_OR_RETURN(std::optional<Chunk> chunk, At());
    if (chunk.has_value() && chunk->downsampled) {
      left_closed_ = true;
    } else if (chunk.has_value()) {
      tail_.push_front(*std::move(chunk));
    } else {
      left_known_ = true;
    }
  }
  return true;
}

template <typename Rows>
absl::Status ChunkMerger<Rows>::Join(size_t from, Window window) {
  Chunk joined{.window = window, .changed = true};
  for (size_t i = from; i < tail_.size(); ++i) {
    FORESHOCK_RETURN_IF_ERROR(Load(&tail_[i]));
    joined.rows.insert(joined.rows.end(), tail_[i].rows.begin(), tail_[i].rows.end());
    if (tail_[i].stored) absorbed_.push_back(tail_[i].window);
  }
  joined.count = static_cast<uint32_t>(joined.rows.size());
  tail_.resize(from);
  tail_.push_back(std::move(joined));
  return absl::OkStatus();
}

template <typename Rows>
absl::Status ChunkMerger<Rows>::Put(const Chunk& chunk) {
  const std::string key = ChunkKey({run_, series_, attempt_, chunk.window});
  return PutRow(family_, key, Rows::Encode(chunk.window.first, chunk.rows), batch_);
}

template <typename Rows>
absl::Status ChunkMerger<Rows>::Delete(Window window) {
  return FromRocks(batch_->Delete(family_, ChunkKey({run_, series_, attempt_, window})),
                   "store: cannot batch a deletion");
}

template class ChunkMerger<PointRows>;
template class ChunkMerger<StepRows>;

}  // namespace foreshock::store
