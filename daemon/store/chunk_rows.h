// What a chunk holds: the points of a series, or the step rows of a run. One chunk of either is all
// rows of one (series, attempt) in a window of steps; ChunkMerger and ChunkReader treat both alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/model/step.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/window.h"

namespace foreshock::store {

// The series under whose id the step rows of a run lie; those of points count from 1.
inline constexpr uint32_t kStepTable = 0;

// Rows of a chunk, at most: windows are merged only up to it, and a window of the smallest size
// cannot hold more.
inline constexpr uint32_t kChunkRowsMax = 1024;
// Windows begin with 2^8 steps.
inline constexpr uint8_t kBaseExponent = 8;

// The points of a window as a downsampled chunk.
std::string EncodeParts(Window window, absl::Span<const ChunkPoint> points);

struct PointRows {
  using Row = ChunkPoint;
  static constexpr absl::string_view kName = "chunk";
  // Steps rise. Lossless: the values are what the catalogue's storage has left of them.
  static std::string Encode(int64_t window_first, absl::Span<const Row> rows);
  // Appends; false: corrupt.
  static bool Decode(std::string_view bytes, int64_t window_first, std::vector<Row>* rows);
};

// The attempt of a step row is in the key and stays untouched.
struct StepRows {
  using Row = StepRow;
  static constexpr absl::string_view kName = "step chunk";
  static std::string Encode(int64_t window_first, absl::Span<const Row> rows);
  static bool Decode(std::string_view bytes, int64_t window_first, std::vector<Row>* rows);
};

}  // namespace foreshock::store
