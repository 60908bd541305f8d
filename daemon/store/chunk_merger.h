// Puts rows of a series into its chunks: into those whose windows they fall in, else into new ones.
// Neighbours that fit into one chunk become one.
//
//   ChunkMerger<PointRows> merger(view, run, attempt, last_step, &batch);
//   FORESHOCK_RETURN_IF_ERROR(merger.Merge(series, points));
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/read_view.h"
#include "daemon/store/window.h"
#include "rocksdb/write_batch.h"

namespace foreshock::store {

// The chunks of one (series, attempt) are disjoint. They begin in the smallest windows
// (kBaseExponent). A larger window is used once it ends at or before `complete_through`, if all
// rows in it fit into one chunk (kChunkRowsMax). So dense series get chunks of 1 024 steps, sparse
// ones long windows, and a row is rewritten O(log) times.
//
// Nobody else may write chunks between the view's moment and the commit of the batch.
template <typename Rows>
class ChunkMerger {
 public:
  using Row = typename Rows::Row;

  ChunkMerger(const ReadView& view, uint32_t run, uint32_t attempt, int64_t complete_through,
              rocksdb::WriteBatch* batch);

  // Steps of `rows` rise; they replace rows of the same steps. Rows whose window has been
  // downsampled come too late: they are left out and counted by `left_out`. DataLoss when a chunk
  // that must be read is corrupt; the batch must not be written then.
  absl::Status Merge(uint32_t series, absl::Span<const Row> rows);

  uint64_t left_out() const { return left_out_; }

 private:
  struct Chunk {
    Window window{};
    std::vector<Row> rows{};  // empty: they are in `bytes`
    std::string bytes{};
    uint32_t count = 0;
    bool downsampled = false;
    bool stored = false;   // there is one in the database under this window
    bool changed = false;  // and it says something else
  };

  // Returns the chunk that the iterator is at.
  absl::StatusOr<std::optional<Chunk>> At();
  absl::Status Load(Chunk* chunk) const;
  // Takes rows before the last chunk: rewrites the chunks they fall in, or makes new ones.
  absl::Status MergeOld(absl::Span<const Row> rows);
  // Overlays the rows of `chunk` with `rows`, all inside its window.
  absl::Status Overlay(absl::Span<const Row> rows, Chunk* chunk) const;
  // Joins the last chunks of `tail_` while they fit into a larger window that ends before `next`.
  // Reads earlier chunks as far as it needs.
  absl::Status Grow(int64_t next);
  // Reads chunks into `tail_` until all of those from step `first` on are there; false: it may not.
  absl::StatusOr<bool> ReachLeft(int64_t first);
  absl::Status Join(size_t from, Window window);
  absl::Status Put(const Chunk& chunk);
  absl::Status Delete(Window window);

  const ReadView& view_;
  const uint32_t run_;
  const uint32_t attempt_;
  const int64_t complete_through_;
  rocksdb::WriteBatch* const batch_;
  rocksdb::ColumnFamilyHandle* const family_;

  uint64_t left_out_ = 0;
  uint32_t series_ = 0;
  // Bounded to the chunks of the series. What the same fold has already written for other series is
  // not in the view, but an unbounded iterator would step over all of it when it goes back.
  std::optional<RowIterator> chunks_;
  // Its newest chunks, in step order.
  std::deque<Chunk> tail_;
  bool left_known_ = false;       // all chunks of the series are in tail_
  bool left_closed_ = false;      // chunks to the left of tail_ must not be touched
  std::vector<Window> absorbed_;  // stored chunks that are now part of another
};

extern template class ChunkMerger<PointRows>;
extern template class ChunkMerger<StepRows>;

}  // namespace foreshock::store
