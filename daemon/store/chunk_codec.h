// Packs the points of one series and attempt in a window of steps into one row, a chunk. The bytes
// with a worked example: docs/formats/chunk.md.
//
//   // The window begins at step 256.
//   std::string row = EncodeChunk(Storage::kF32, 256, points);
//   std::vector<ChunkPoint> back;
//   if (!DecodeChunk(row, 256, &back)) return CorruptRow("chunks", key, "chunk", row);
//
// Pure functions. Decoders take exactly one whole row and return false for anything else. They
// never crash, but only the checksum around a row shows that a value was changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
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

// Sums up some points of a series. `sum` is added up in step order and is finite: where it would
// overflow it is the largest double.
struct ChunkSummary {
  uint32_t count = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  double min = 0;
  double max = 0;
  double sum = 0;
  double last = 0;
  uint32_t flags = 0;  // of all points, OR

  friend bool operator==(const ChunkSummary&, const ChunkSummary&) = default;
};

enum class ChunkKind : uint8_t { kNone = 0, kPoints = 1, kDownsampled = 2, kSteps = 3 };

// Reads the kind off the first byte; kNone: it is no chunk.
ChunkKind KindOf(absl::string_view row);

// Takes 1 to kChunkPointsMax points with finite values; steps rise strictly from `window_start` on.
// It keeps a value as a point row of `storage` does (row_codec.h, StoredAs). One value that has to
// be a double makes all of them doubles.
std::string EncodeChunk(model::Storage storage, int64_t window_start,
                        absl::Span<const ChunkPoint> points);
// Appends to `points`, also before it returns false.
bool DecodeChunk(absl::string_view row, int64_t window_start, std::vector<ChunkPoint>* points);

// Reads off the first bytes how many points, parts or step rows a chunk of any kind has.
bool DecodeChunkCount(absl::string_view row, uint32_t* count);

// For a chunk of points or a downsampled one. A chunk of 512 points or more begins with its
// summary; of a smaller one the points are decoded.
bool DecodeChunkSummary(absl::string_view row, int64_t window_start, ChunkSummary* summary);

// Takes at least one point.
ChunkSummary Summarise(absl::Span<const ChunkPoint> points);
// Takes at least one summary; they are neighbours in step order.
ChunkSummary Join(absl::Span<const ChunkSummary> parts);

// Divides a window of 2^`window_exponent` steps into kChunkPartsMax equal parts (single steps if it
// has fewer) and returns those that have points. `points` as in EncodeChunk.
std::vector<ChunkSummary> Downsample(int64_t window_start, int window_exponent,
                                     absl::Span<const ChunkPoint> points);
// Takes 1 to kChunkPartsMax parts in step order. It keeps min, max and last as a point of `storage`
// is kept, and the mean as float32 if `storage` is kF32, else as a double. `sum` comes back as mean
// times count.
std::string EncodeDownsampled(model::Storage storage, int64_t window_start,
                              absl::Span<const ChunkSummary> parts);
bool DecodeDownsampled(absl::string_view row, int64_t window_start,
                       std::vector<ChunkSummary>* parts);

// Takes 1 to kChunkPointsMax rows of the step table; steps rise strictly. The attempt is in the key
// and not stored here: decoded rows have attempt 0.
std::string EncodeStepChunk(int64_t window_start, absl::Span<const model::StepRow> steps);
bool DecodeStepChunk(absl::string_view row, int64_t window_start,
                     std::vector<model::StepRow>* steps);

}  // namespace foreshock::store
