// Reads the rows of one (series, attempt) in a stretch of steps: those in chunks, overlaid by those
// that are still in heads.
//
//   ChunkReader<PointRows> reader(view, run);
//   for each series: reader.Read(series, stretch, open_points, visit)
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/lineage.h"
#include "daemon/store/read_view.h"
#include "daemon/store/window.h"

namespace foreshock::store {

// Rows: PointRows or StepRows. Keeps one iterator and one buffer for all its reads.
template <typename Rows>
class ChunkReader {
 public:
  using Row = typename Rows::Row;
  using Visit = absl::FunctionRef<bool(const Row&)>;

  // What the caller does with a chunk that it is offered whole.
  enum class Whole { kDecode, kTaken, kStop };
  // Offers a chunk whose window has no open row.
  using TakeWhole = absl::FunctionRef<absl::StatusOr<Whole>(absl::string_view key, Window window,
                                                            absl::string_view bytes)>;

  ChunkReader(const ReadView& view, uint32_t run);

  // Visits in step order. `open`: rows of this attempt inside the stretch, in step order; they
  // replace rows in chunks. A downsampled chunk has no rows: it is offered whole, or passed over.
  // Open rows in its window come too late and are passed over too. False: the visitor wants no
  // more.
  absl::StatusOr<bool> Read(uint32_t series, const Stretch& stretch, absl::Span<const Row> open,
                            Visit visit);
  absl::StatusOr<bool> Read(uint32_t series, const Stretch& stretch, absl::Span<const Row> open,
                            Visit visit, TakeWhole take_whole);

 private:
  // Visits those of `rows_` inside the stretch and those of `open` up to `last`, and cuts the
  // latter off `open`.
  bool Merge(const Stretch& stretch, int64_t last, absl::Span<const Row>* open, Visit visit) const;

  const uint32_t run_;
  RowIterator chunks_;
  std::vector<Row> rows_;
};

extern template class ChunkReader<PointRows>;
extern template class ChunkReader<StepRows>;

}  // namespace foreshock::store
