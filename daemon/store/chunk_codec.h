// Chunks: the points of one series and attempt in a window of steps, packed into one row. The bytes
// and a worked example: docs/formats/chunk.md.
//
//   // Of the window that begins at step 256.
//   std::string row = EncodeChunk(Storage::kF32, 256, points);
//   std::vector<ChunkPoint> back;
//   if (!DecodeChunk(row, 256, &back)) return CorruptRow("chunks", key, "chunk", row);
//
// Pure functions. Decoders take exactly one whole row and answer false to anything that is not one;
// they never crash, but only a checksum around the row tells a changed value from a written one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "daemon/model/catalogue.h"
#include "daemon/model/step.h"

namespace foreshock::store {

inline constexpr size_t kChunkPointsMax = size_t{1} << 16;
inline constexpr int kChunkPartsMax = 16;  // of a downsampled chunk

struct ChunkPoint {
  int64_t step = 0;
  double value = 0;
  uint32_t flags = 0;

  friend bool operator==(const ChunkPoint&, const ChunkPoint&) = default;
};

// What some points of a series have in common. `sum` is added up in step order
// and is finite: what would overflow stays the largest double.
struct ChunkSummary {
  uint32_t count = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  double min = 0;
  double max = 0;
  double sum = 0;
  double last = 0;
  uint32_t flags = 0;  // all that occur

  friend bool operator==(const ChunkSummary&, const ChunkSummary&) = default;
};

enum class ChunkKind : uint8_t { kNone = 0, kPoints = 1, kDownsampled = 2, kSteps = 3 };

// What the first byte says; kNone: no chunk.
ChunkKind KindOf(std::string_view row);

// 1 to kChunkPointsMax points, steps strictly rising and not before `window_start`, values finite.
// A value is kept as a point row of `storage` would keep it (row_codec.h, StoredAs); one that has
// to be a double makes doubles of all.
std::string EncodeChunk(Storage storage, int64_t window_start, absl::Span<const ChunkPoint> points);
// Appends. On false `points` may have grown.
bool DecodeChunk(std::string_view row, int64_t window_start, std::vector<ChunkPoint>* points);

// How many points, parts or step rows a chunk of any kind has, by its first bytes alone.
bool DecodeChunkCount(std::string_view row, uint32_t* count);

// Of a chunk of points or a downsampled one. Chunks of 512 points and more have it in front; for
// smaller ones the points are decoded.
bool DecodeChunkSummary(std::string_view row, int64_t window_start, ChunkSummary* summary);

// Of at least one point.
ChunkSummary Summarise(absl::Span<const ChunkPoint> points);
// Of neighbours in step order; at least one.
ChunkSummary Join(absl::Span<const ChunkSummary> parts);

// The window of 2^`window_exponent` steps in kChunkPartsMax equal parts (single steps if it has
// fewer), those that have points. `points` as in EncodeChunk.
std::vector<ChunkSummary> Downsample(int64_t window_start, int window_exponent,
                                     absl::Span<const ChunkPoint> points);
// 1 to kChunkPartsMax parts in step order. min, max and last are kept as a point of `storage` is,
// the mean as float32 if `storage` is kF32, else as a double; `sum` comes back as mean times count.
std::string EncodeDownsampled(Storage storage, int64_t window_start,
                              absl::Span<const ChunkSummary> parts);
bool DecodeDownsampled(std::string_view row, int64_t window_start,
                       std::vector<ChunkSummary>* parts);

// Rows of the step table: 1 to kChunkPointsMax, steps strictly rising. The attempt is the key's: it
// is not stored, and `attempt` of what is decoded is 0.
std::string EncodeStepChunk(int64_t window_start, absl::Span<const StepRow> steps);
bool DecodeStepChunk(std::string_view row, int64_t window_start, std::vector<StepRow>* steps);

}  // namespace foreshock::store
