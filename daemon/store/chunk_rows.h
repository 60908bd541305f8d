// The two kinds of rows that chunks hold: points of a series, and step rows of a run. A chunk holds
// all rows of one (series, attempt) in a window of steps. ChunkMerger and ChunkReader treat both
// alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/model/step.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/window.h"

namespace foreshock::store {

// Step rows of a run are stored as the series of this id; series of points count from 1.
inline constexpr uint32_t kStepTable = 0;

// The most rows of a chunk: windows are merged only up to it, and the smallest window holds fewer.
inline constexpr uint32_t kChunkRowsMax = 1024;
// The smallest windows have 2^8 steps.
inline constexpr uint8_t kBaseExponent = 8;

// Packs the points of a window into a downsampled chunk.
std::string EncodeParts(Window window, absl::Span<const ChunkPoint> points);

struct PointRows {
  using Row = ChunkPoint;
  static constexpr absl::string_view kName = "chunk";
  // Steps rise. Keeps every value, which was fitted to the catalogue's storage when it was written.
  static std::string Encode(int64_t window_first, absl::Span<const Row> rows);
  // Appends to `rows`; false: corrupt.
  static bool Decode(absl::string_view bytes, int64_t window_first, std::vector<Row>* rows);
};

// The attempt of a step row is in the key; it is not set here.
struct StepRows {
  using Row = model::StepRow;
  static constexpr absl::string_view kName = "step chunk";
  static std::string Encode(int64_t window_first, absl::Span<const Row> rows);
  static bool Decode(absl::string_view bytes, int64_t window_first, std::vector<Row>* rows);
};

}  // namespace foreshock::store
