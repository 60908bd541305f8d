#include "daemon/store/chunk_codec.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "daemon/store/row_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

using ::testing::ElementsAreArray;

std::vector<ChunkPoint> AsKept(Storage storage, std::vector<ChunkPoint> points) {
  for (ChunkPoint& point : points) point.value = Kept(storage, point.value);
  return points;
}

TEST(ChunkCodecTest, PointsOfEveryStorageComeBack) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (const Storage storage : {Storage::kF32, Storage::kF64, Storage::kI64}) {
    for (const size_t count : {1, 2, 3, 100, 511, 512, 1024, 1 << 16}) {
      std::vector<ChunkPoint> points;
      int64_t step = 256;
      for (size_t i = 0; i < count; ++i) {
        const double value = 2.5 + 0.1 * normal(random);
        points.push_back({step, storage == Storage::kI64 ? std::round(1000 * value) : value,
                          i % 7 == 0 ? 16u : 0u});
        step += 1 + static_cast<int64_t>(random() % 3);
      }
      const std::string row = EncodeChunk(storage, 256, points);
      std::vector<ChunkPoint> back;
      ASSERT_TRUE(DecodeChunk(row, 256, &back));
      const std::vector<ChunkPoint> kept = AsKept(storage, points);
      EXPECT_THAT(back, ElementsAreArray(kept));
      ChunkSummary summary;
      ASSERT_TRUE(DecodeChunkSummary(row, 256, &summary));
      EXPECT_EQ(summary, Summarise(kept));
    }
  }
}

}  // namespace
}  // namespace foreshock::store
