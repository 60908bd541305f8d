// Any bytes as a row of the family chunks: a decoder refuses them or hands out what the encoder
// takes, and that comes back the same.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/base/check.h"
#include "daemon/store/chunk_codec.h"

namespace foreshock::store {
namespace {

constexpr int64_t kWindowStart = -256;

template <typename Row>
void CheckSteps(const std::vector<Row>& rows) {
  FORESHOCK_CHECK(!rows.empty() && rows[0].step >= kWindowStart);
  for (size_t i = 1; i < rows.size(); ++i) FORESHOCK_CHECK(rows[i - 1].step < rows[i].step);
}

void CheckChunk(absl::string_view row) {
  ChunkSummary summary;
  const bool has_summary = DecodeChunkSummary(row, kWindowStart, &summary);
  std::vector<ChunkPoint> points;
  if (!DecodeChunk(row, kWindowStart, &points)) return;
  FORESHOCK_CHECK(has_summary && summary.count == points.size());
  CheckSteps(points);
  for (const ChunkPoint& point : points) FORESHOCK_CHECK(std::isfinite(point.value));
  // Doubles keep all that a row can hold.
  std::vector<ChunkPoint> back;
  FORESHOCK_CHECK(
      DecodeChunk(EncodeChunk(Storage::kF64, kWindowStart, points), kWindowStart, &back));
  FORESHOCK_CHECK(back == points);
}

void CheckStepChunk(absl::string_view row) {
  std::vector<StepRow> steps;
  if (!DecodeStepChunk(row, kWindowStart, &steps)) return;
  CheckSteps(steps);
  std::vector<StepRow> back;
  FORESHOCK_CHECK(DecodeStepChunk(EncodeStepChunk(kWindowStart, steps), kWindowStart, &back));
  FORESHOCK_CHECK(back == steps);
}

void CheckDownsampled(absl::string_view row) {
  std::vector<ChunkSummary> parts;
  if (!DecodeDownsampled(row, kWindowStart, &parts)) return;
  FORESHOCK_CHECK(!parts.empty() && parts.size() <= kChunkPartsMax);
  for (const ChunkSummary& part : parts) {
    FORESHOCK_CHECK(part.count > 0 && part.first_step <= part.last_step);
    FORESHOCK_CHECK(part.min <= part.max && std::isfinite(part.last));
  }
}

}  // namespace
}  // namespace foreshock::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view row(reinterpret_cast<const char*>(data), size);
  foreshock::store::CheckChunk(row);
  foreshock::store::CheckStepChunk(row);
  foreshock::store::CheckDownsampled(row);
  return 0;
}
