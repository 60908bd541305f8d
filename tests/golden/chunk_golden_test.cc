// The bytes of chunks: what known points become, and that these bytes read back.
// docs/formats/chunk.md explains them. The files are also the seeds of the fuzz target chunk_fuzz.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/model/series.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/row_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::golden {
namespace {

using ::testing::ElementsAreArray;

std::string GoldenFile(const std::string& name) {
  std::ifstream file(absl::StrCat(FORESHOCK_SOURCE_DIR, "/tests/golden/chunk/", name),
                     std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// `count` points every `cadence` steps from 1024 on.
std::vector<store::ChunkPoint> Points(int64_t count, int64_t cadence,
                                      const std::function<double(int64_t)>& value) {
  std::vector<store::ChunkPoint> points;
  for (int64_t i = 0; i < count; ++i) points.push_back({1024 + i * cadence, value(i), 0});
  return points;
}

// Whole numbers only, so that every machine has the same.
double Noise(int64_t i) { return static_cast<double>(i * i * 7919 % 1009); }

struct KnownChunk {
  const char* file;
  model::Storage storage;
  std::vector<store::ChunkPoint> points;
};

std::vector<KnownChunk> KnownChunks() {
  std::vector<KnownChunk> chunks = {
      {"example.bin",
       model::Storage::kF32,
       {{1024, 2.0, 0}, {1034, 2.1, 0}, {1044, 2.3, 0}, {1054, 2.2, 0}, {1064, 2.4, 0}}},
      {"shares.bin", model::Storage::kF32, Points(64, 1, [](int64_t i) { return Noise(i) / 96; })},
      {"signs.bin", model::Storage::kF32,
       Points(32, 10, [](int64_t i) { return Noise(i) / 7e4 - 0.007; })},
      {"counts.bin", model::Storage::kI64, Points(64, 1, [](int64_t i) { return 1e6 * Noise(i); })},
      {"doubles.bin", model::Storage::kF64,
       Points(32, 1, [](int64_t i) { return 1 / (1 + Noise(i)); })},
      {"widened.bin", model::Storage::kF32,
       Points(16, 1, [](int64_t i) { return i == 7 ? 1e300 : 1; })},
      {"one.bin", model::Storage::kF32, Points(1, 1, [](int64_t) { return -0.0; })},
      {"summary.bin", model::Storage::kF32,
       Points(512, 1, [](int64_t i) { return 3 + Noise(i) / 7e4; })},
  };
  chunks[1].points.back().step += 3;
  for (size_t i = 0; i < 64; i += 5)
    chunks[3].points[i].flags = model::kFlagPartial | model::kFlagLate;
  return chunks;
}

TEST(ChunkGoldenTest, KnownPointsBecomeTheseBytesAndBack) {
  for (const KnownChunk& chunk : KnownChunks()) {
    const std::string row = store::EncodeChunk(chunk.storage, 1024, chunk.points);
    EXPECT_EQ(absl::BytesToHexString(row), absl::BytesToHexString(GoldenFile(chunk.file)))
        << chunk.file;
    std::vector<store::ChunkPoint> expected = chunk.points;
    for (store::ChunkPoint& point : expected) point.value = store::Kept(chunk.storage, point.value);
    std::vector<store::ChunkPoint> back;
    ASSERT_TRUE(store::DecodeChunk(GoldenFile(chunk.file), 1024, &back)) << chunk.file;
    EXPECT_THAT(back, ElementsAreArray(expected)) << chunk.file;
    EXPECT_EQ(std::signbit(back[0].value), std::signbit(expected[0].value)) << chunk.file;
  }
}

TEST(ChunkGoldenTest, KnownPartsBecomeTheseBytesAndBack) {
  const std::vector<store::ChunkPoint> points = Points(100, 2, Noise);
  const std::vector<store::ChunkSummary> parts = store::Downsample(1024, 8, points);
  EXPECT_EQ(absl::BytesToHexString(store::EncodeDownsampled(model::Storage::kI64, 1024, parts)),
            absl::BytesToHexString(GoldenFile("downsampled.bin")));
  std::vector<store::ChunkSummary> back;
  ASSERT_TRUE(store::DecodeDownsampled(GoldenFile("downsampled.bin"), 1024, &back));
  ASSERT_EQ(back.size(), parts.size());
  EXPECT_EQ(back[3].first_step, parts[3].first_step);
  EXPECT_EQ(back[3].last, parts[3].last);
  EXPECT_EQ(back[3].sum, parts[3].sum);
}

TEST(ChunkGoldenTest, KnownStepRowsBecomeTheseBytesAndBack) {
  std::vector<model::StepRow> steps;
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t time =
        1'800'000'000'000'000'000 + i * 250'000'000 + static_cast<int64_t>(Noise(i));
    steps.push_back({0, 1024 + i, time, 4'194'304, 8, i == 5, i == 7, i == 7});
  }
  EXPECT_EQ(absl::BytesToHexString(store::EncodeStepChunk(1024, steps)),
            absl::BytesToHexString(GoldenFile("steps.bin")));
  std::vector<model::StepRow> back;
  ASSERT_TRUE(store::DecodeStepChunk(GoldenFile("steps.bin"), 1024, &back));
  EXPECT_THAT(back, ElementsAreArray(steps));
}

}  // namespace
}  // namespace foreshock::golden
