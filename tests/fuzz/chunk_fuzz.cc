// Any bytes as a row of the family chunks: a decoder refuses them or hands out what the encoder
// takes, and that comes back the same.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/base/check.h"
#include "daemon/store/chunk_codec.h"

namespace foreshock::fuzz {
namespace {

constexpr int64_t kWindowStart = -256;

template <typename Row>
void CheckSteps(const std::vector<Row>& rows) {
  FORESHOCK_CHECK(!rows.empty() && rows[0].step >= kWindowStart);
  for (size_t i = 1; i < rows.size(); ++i) FORESHOCK_CHECK(rows[i - 1].step < rows[i].step);
}

void CheckChunk(absl::string_view row) {
  store::ChunkSummary summary;
  const bool has_summary = store::DecodeChunkSummary(row, kWindowStart, &summary);
  std::vector<store::ChunkPoint> points;
  if (!store::DecodeChunk(row, kWindowStart, &points)) return;
  FORESHOCK_CHECK(has_summary && summary.count == points.size());
  CheckSteps(points);
  for (const store::ChunkPoint& point : points) FORESHOCK_CHECK(std::isfinite(point.value));
  // Doubles keep all that a row can hold.
  std::vector<store::ChunkPoint> back;
  FORESHOCK_CHECK(store::DecodeChunk(store::EncodeChunk(model::Storage::kF64, kWindowStart, points),
                                     kWindowStart, &back));
  FORESHOCK_CHECK(back == points);
}

void CheckStepChunk(absl::string_view row) {
  std::vector<model::StepRow> steps;
  if (!store::DecodeStepChunk(row, kWindowStart, &steps)) return;
  CheckSteps(steps);
  std::vector<model::StepRow> back;
  FORESHOCK_CHECK(
      store::DecodeStepChunk(store::EncodeStepChunk(kWindowStart, steps), kWindowStart, &back));
  FORESHOCK_CHECK(back == steps);
}

void CheckDownsampled(absl::string_view row) {
  std::vector<store::ChunkSummary> parts;
  if (!store::DecodeDownsampled(row, kWindowStart, &parts)) return;
  FORESHOCK_CHECK(!parts.empty() && parts.size() <= store::kChunkPartsMax);
  for (const store::ChunkSummary& part : parts) {
    FORESHOCK_CHECK(part.count > 0 && part.first_step <= part.last_step);
    FORESHOCK_CHECK(part.min <= part.max && std::isfinite(part.last));
  }
}

}  // namespace
}  // namespace foreshock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view row(reinterpret_cast<const char*>(data), size);
  foreshock::fuzz::CheckChunk(row);
  foreshock::fuzz::CheckStepChunk(row);
  foreshock::fuzz::CheckDownsampled(row);
  return 0;
}
