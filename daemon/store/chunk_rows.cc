#include "daemon/store/chunk_rows.h"

#include "absl/strings/string_view.h"
#include "daemon/store/row_codec.h"

namespace foreshock::store {
namespace {

// Chooses the narrowest type that keeps every value exactly.
model::Storage StorageOfValues(absl::Span<const ChunkPoint> points) {
  bool whole = true;
  bool narrow = true;
  for (const ChunkPoint& point : points) {
    whole = whole && StoredAs(model::Storage::kI64, point.value) == model::Storage::kI64;
    narrow = narrow && StoredAs(model::Storage::kF32, point.value) == model::Storage::kF32 &&
             Kept(model::Storage::kF32, point.value) == point.value;
  }
  return whole ? model::Storage::kI64 : narrow ? model::Storage::kF32 : model::Storage::kF64;
}

}  // namespace

std::string EncodeParts(Window window, absl::Span<const ChunkPoint> points) {
  return EncodeDownsampled(StorageOfValues(points), window.first,
                           Downsample(window.first, window.exponent, points));
}

std::string PointRows::Encode(int64_t window_first, absl::Span<const Row> rows) {
  return EncodeChunk(StorageOfValues(rows), window_first, rows);
}

bool PointRows::Decode(absl::string_view bytes, int64_t window_first, std::vector<Row>* rows) {
  return DecodeChunk(bytes, window_first, rows);
}

std::string StepRows::Encode(int64_t window_first, absl::Span<const Row> rows) {
  return EncodeStepChunk(window_first, rows);
}

bool StepRows::Decode(absl::string_view bytes, int64_t window_first, std::vector<Row>* rows) {
  return DecodeStepChunk(bytes, window_first, rows);
}

}  // namespace foreshock::store
