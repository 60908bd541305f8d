#include "daemon/store/chunk_reader.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/key_codec.h"
#include "daemon/store/rocks_status.h"

namespace foreshock::store {

template <typename Rows>
ChunkReader<Rows>::ChunkReader(const ReadView& view, uint32_t run)
    : run_(run), chunks_(view, Family::kChunks, RunPrefix(run)) {}

template <typename Rows>
absl::StatusOr<bool> ChunkReader<Rows>::Read(uint32_t series, const Stretch& stretch,
                                             absl::Span<const Row> open, Visit visit) {
  return Read(series, stretch, open, visit,
              [](absl::string_view, Window, absl::string_view) -> absl::StatusOr<Whole> {
                return Whole::kDecode;
              });
}

template <typename Rows>
absl::StatusOr<bool> ChunkReader<Rows>::Read(uint32_t series, const Stretch& stretch,
                                             absl::Span<const Row> open, Visit visit,
                                             TakeWhole take_whole) {
  for (chunks_.Seek(ChunkBoundary(run_, series, stretch.attempt, stretch.first)); chunks_.Valid();
       chunks_.Next()) {
    ChunkId id;
    if (!DecodeChunkKey(chunks_.key(), &id)) {
      return CorruptRow(FamilyName(Family::kChunks), chunks_.key(), "key", "");
    }
    if (id.series != series || id.attempt != stretch.attempt || id.window.first > stretch.last) {
      break;
    }
    FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view bytes, chunks_.Value());
    rows_.clear();
    if (id.window.first > stretch.first) {
      if (!Merge(stretch, id.window.first - 1, &open, visit)) return false;
    }
    const bool downsampled = KindOf(bytes) == ChunkKind::kDownsampled;
    if (downsampled) {
      while (!open.empty() && open.front().step <= id.window.last()) open.remove_prefix(1);
    }
    if (open.empty() || open.front().step > id.window.last()) {
      FORESHOCK_ASSIGN_OR_RETURN(const Whole whole, take_whole(chunks_.key(), id.window, bytes));
      if (whole == Whole::kStop) return false;
      if (whole == Whole::kTaken || downsampled) continue;
    }
    if (!Rows::Decode(bytes, id.window.first, &rows_) || rows_.empty() ||
        rows_.back().step > id.window.last()) {
      return CorruptRow(FamilyName(Family::kChunks), chunks_.key(), Rows::kName, bytes);
    }
    if (!Merge(stretch, id.window.last(), &open, visit)) return false;
  }
  FORESHOCK_RETURN_IF_ERROR(chunks_.status());
  rows_.clear();
  return Merge(stretch, stretch.last, &open, visit);
}

template <typename Rows>
bool ChunkReader<Rows>::Merge(const Stretch& stretch, int64_t last, absl::Span<const Row>* open,
                              Visit visit) const {
  const auto before = [](const Row& row, int64_t step) { return row.step < step; };
  auto row = std::lower_bound(rows_.begin(), rows_.end(), stretch.first, before);
  const auto in_chunk = [&] { return row != rows_.end() && row->step <= stretch.last; };
  const auto in_open = [&] { return !open->empty() && open->front().step <= last; };
  while (in_chunk() || in_open()) {
    if (in_open() && (!in_chunk() || open->front().step <= row->step)) {
      if (in_chunk() && open->front().step == row->step) ++row;
      if (!visit(open->front())) return false;
      open->remove_prefix(1);
    } else {
      if (!visit(*row)) return false;
      ++row;
    }
  }
  return true;
}

template class ChunkReader<PointRows>;
template class ChunkReader<StepRows>;

}  // namespace foreshock::store
