#include "daemon/store/chunk_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/row_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

using ::testing::ElementsAreArray;

constexpr int64_t kFirstStep = std::numeric_limits<int64_t>::min();
constexpr int64_t kLastStep = std::numeric_limits<int64_t>::max();
constexpr model::Storage kStorages[] = {model::Storage::kF32, model::Storage::kF64,
                                        model::Storage::kI64};

std::vector<ChunkPoint> AsKept(model::Storage storage, std::vector<ChunkPoint> points) {
  for (ChunkPoint& point : points) point.value = Kept(storage, point.value);
  return points;
}

bool SameBits(const std::vector<ChunkPoint>& a, const std::vector<ChunkPoint>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x == y && std::signbit(x.value) == std::signbit(y.value);
  });
}

void ExpectComesBack(model::Storage storage, int64_t window_start,
                     const std::vector<ChunkPoint>& points) {
  const std::vector<ChunkPoint> kept = AsKept(storage, points);
  const std::string row = EncodeChunk(storage, window_start, points);
  EXPECT_EQ(KindOf(row), ChunkKind::kPoints);
  std::vector<ChunkPoint> back = {{-5, 1.5, 3}};
  ASSERT_TRUE(DecodeChunk(row, window_start, &back));
  EXPECT_EQ(back.front(), (ChunkPoint{-5, 1.5, 3}));  // it appends
  back.erase(back.begin());
  EXPECT_TRUE(SameBits(back, kept));
  EXPECT_EQ(EncodeChunk(storage, window_start, back), row);  // and what came back is the same chunk
  ChunkSummary summary;
  ASSERT_TRUE(DecodeChunkSummary(row, window_start, &summary));
  EXPECT_EQ(summary, Summarise(kept));
}

// Makes a series of one of several kinds, from `step` on.
std::vector<ChunkPoint> RandomSeries(model::Storage storage, size_t count, int64_t step,
                                     std::mt19937_64* random) {
  const uint64_t shape = (*random)() % 6;
  const uint64_t cadence = (*random)() % 3;
  const uint64_t flagging = (*random)() % 4;
  const double denominator = static_cast<double>(1 + (*random)() % 5000);
  std::normal_distribution<double> normal;
  double walk = normal(*random);
  std::vector<ChunkPoint> points;
  for (size_t i = 0; i < count; ++i) {
    walk += 0.01 * normal(*random);
    double value = walk;
    if (shape == 1) value = 3.25;                                       // constant
    if (shape == 2) value = std::round(100 + 20 * walk) / denominator;  // a share of a count
    if (shape == 3) value = std::bit_cast<float>(static_cast<uint32_t>((*random)()));
    if (shape == 4 && (*random)() % 50 == 0) value = 1e-300 * walk;  // does not fit a float
    if (shape == 5) value = std::sin(0.01 * static_cast<double>(i));
    if (!std::isfinite(value)) value = -0.0;
    if (storage == model::Storage::kI64 && shape != 4) value = std::round(1000 * value);
    uint32_t flags = flagging == 1 ? 16 : 0;
    if (flagging == 2 && i % 10 == 0) flags = 64;
    if (flagging == 3) flags = static_cast<uint32_t>((*random)());
    points.push_back({step, value, flags});
    step += cadence == 0 ? 1 : cadence == 1 ? 10 : 1 + static_cast<int64_t>((*random)() % 40);
  }
  return points;
}

TEST(ChunkCodecTest, RandomSeriesOfEveryStorageComeBack) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const model::Storage storage : kStorages) {
    for (const size_t count : {1, 2, 3, 17, 511, 512, 1024}) {
      for (int i = 0; i < 12; ++i) {
        const auto window = static_cast<int64_t>(random()) / 2;
        const int64_t first = window + static_cast<int64_t>(random() % 256);
        ExpectComesBack(storage, window, RandomSeries(storage, count, first, &random));
      }
    }
  }
  ExpectComesBack(model::Storage::kF32, 0,
                  RandomSeries(model::Storage::kF32, kChunkPointsMax, 0, &random));
}

TEST(ChunkCodecTest, StepsUpToTheEndsOfTheirRangeComeBack) {
  for (const std::vector<int64_t>& steps :
       std::vector<std::vector<int64_t>>{{kFirstStep},
                                         {kLastStep},
                                         {kFirstStep, kLastStep},
                                         {kFirstStep, -1, 0, 1, kLastStep},
                                         {kFirstStep, kFirstStep + 1},
                                         {kLastStep - 1, kLastStep}}) {
    std::vector<ChunkPoint> points;
    for (const int64_t step : steps) points.push_back({step, 1, 0});
    ExpectComesBack(model::Storage::kF32, kFirstStep, points);
    ExpectComesBack(model::Storage::kF32, steps[0], points);
  }
}

TEST(ChunkCodecTest, EveryFiniteValueComesBackAsAPointRowWouldKeepIt) {
  using Float = std::numeric_limits<float>;
  using Double = std::numeric_limits<double>;
  const double values[] = {0.0,           -0.0,
                           1.0 / 3,       -1.0 / 3,
                           Float::max(),  -Float::max(),
                           Float::min(),  Float::denorm_min(),
                           Double::max(), Double::denorm_min(),
                           0x1p63,        -0x1p63,
                           0x1p53 - 1,    0.5};
  for (const model::Storage storage : kStorages) {
    for (const double a : values) {
      ExpectComesBack(storage, 0, {{0, a, 0}});
      for (const double b : values) ExpectComesBack(storage, 0, {{0, a, 0}, {1, b, 0}, {2, a, 0}});
    }
  }
}

TEST(ChunkCodecTest, WhatRepeatsCostsNothingAndFractionsCostTheirNumerators) {
  std::vector<ChunkPoint> points;
  for (int64_t i = 0; i < 400; ++i) points.push_back({1000 + i, 0.1, 16});
  EXPECT_LE(EncodeChunk(model::Storage::kF32, 1000, points).size(), 20u);
  std::mt19937_64 random(1);
  for (const int denominator : {128, 96, 1000, 24576, 131072}) {
    for (ChunkPoint& point : points) {
      point.value = (denominator / 3 + static_cast<double>(random() % 16)) / denominator;
    }
    // 4 bits of noise and 1.6 for not being geometric.
    EXPECT_LE(EncodeChunk(model::Storage::kF32, 1000, points).size(), 400 * 6 / 8 + 20u)
        << denominator;
  }
}

TEST(ChunkCodecTest, TruncatedAndChangedRowsAreRefusedOrDecodedButNeverCrash) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const auto& [count, rounds] : {std::pair<size_t, int>{1, 6}, {5, 12}, {40, 12}, {520, 1}}) {
    for (int i = 0; i < rounds; ++i) {
      const std::vector<ChunkPoint> points = RandomSeries(model::Storage::kF32, count, 7, &random);
      const std::string row = EncodeChunk(model::Storage::kF32, 0, points);
      std::vector<ChunkPoint> back;
      ChunkSummary summary;
      for (size_t length = 0; length < row.size(); ++length) {
        EXPECT_FALSE(DecodeChunk(row.substr(0, length), 0, &back)) << length;
        DecodeChunkSummary(row.substr(0, length), 0, &summary);
      }
      EXPECT_FALSE(DecodeChunk(row + '\0', 0, &back));
      for (size_t at = 0; at < row.size(); ++at) {
        std::string changed = row;
        changed[at] = static_cast<char>(changed[at] ^ static_cast<char>(1 + random() % 255));
        back.clear();
        DecodeChunkSummary(changed, 0, &summary);
        if (!DecodeChunk(changed, 0, &back)) continue;
        for (size_t k = 0; k < back.size(); ++k) {
          ASSERT_TRUE(std::isfinite(back[k].value));
          ASSERT_TRUE(k == 0 || back[k - 1].step < back[k].step);
        }
      }
    }
  }
}

TEST(ChunkCodecTest, TheDownsampledFormAgreesWithASlowReference) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const model::Storage storage : kStorages) {
    for (const int exponent : {0, 3, 4, 8, 12}) {
      const int64_t window = -(int64_t{1} << 20);
      std::vector<ChunkPoint> points =
          AsKept(storage, RandomSeries(storage, 1000, window, &random));
      std::erase_if(points, [&](const ChunkPoint& point) {
        return point.step - window >= int64_t{1} << exponent;
      });
      std::map<int64_t, std::vector<ChunkPoint>> parts;  // by number of the part
      for (const ChunkPoint& point : points) {
        parts[(point.step - window) * 16 / std::max<int64_t>(int64_t{1} << exponent, 16)].push_back(
            point);
      }
      std::vector<ChunkSummary> expected;
      for (const auto& [number, part] : parts) expected.push_back(Summarise(part));
      const std::vector<ChunkSummary> downsampled = Downsample(window, exponent, points);
      EXPECT_THAT(downsampled, ElementsAreArray(expected));

      const std::string row = EncodeDownsampled(storage, window, downsampled);
      EXPECT_EQ(KindOf(row), ChunkKind::kDownsampled);
      std::vector<ChunkSummary> back;
      EXPECT_FALSE(DecodeDownsampled(row + '\0', window, &back));
      ASSERT_TRUE(DecodeDownsampled(row, window, &back));
      ASSERT_EQ(back.size(), expected.size());
      for (size_t i = 0; i < back.size(); ++i) {
        // A float's rounding of the mean where the storage is float, of doubles elsewhere.
        const double mean = expected[i].sum / expected[i].count;
        EXPECT_NEAR(back[i].sum / back[i].count, mean, 0x1p-24 * std::fabs(mean));
        EXPECT_GE(back[i].sum / back[i].count, back[i].min - 0x1p-52 * std::fabs(back[i].min));
        EXPECT_LE(back[i].sum / back[i].count, back[i].max + 0x1p-52 * std::fabs(back[i].max));
        back[i].sum = expected[i].sum;
        EXPECT_EQ(back[i], expected[i]);
      }
      ChunkSummary joined;
      ASSERT_TRUE(DecodeChunkSummary(row, window, &joined));
      const ChunkSummary whole = Summarise(points);
      EXPECT_EQ(joined.count, whole.count);
      EXPECT_EQ(joined.min, whole.min);
      EXPECT_EQ(joined.last, whole.last);
      EXPECT_EQ(joined.last_step, whole.last_step);
      EXPECT_EQ(joined.flags, whole.flags);
      std::vector<ChunkPoint> none;
      EXPECT_FALSE(DecodeChunk(row, window, &none));
      for (size_t length = 0; length < row.size(); ++length) {
        EXPECT_FALSE(DecodeDownsampled(row.substr(0, length), window, &back)) << length;
      }
    }
  }
}

TEST(ChunkCodecTest, StepRowsComeBack) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<model::StepRow> steps;
  for (int64_t i = 0; i < 700; ++i) {
    model::StepRow step;
    step.step = 100 + i + i / 50;
    step.time_unix_ns =
        1'800'000'000'000'000'000 + i * 250'000'000 + static_cast<int64_t>(random() % 4'000'000);
    step.tokens = i < 3 ? std::numeric_limits<uint64_t>::max() : 4'194'304;
    step.ranks = i % 100 == 0 ? std::numeric_limits<uint32_t>::max() : 4096;
    step.skipped = random() % 30 == 0;
    step.partial = random() % 20 == 0;
    step.late = random() % 40 == 0;
    steps.push_back(step);
  }
  const std::string row = EncodeStepChunk(64, steps);
  EXPECT_EQ(KindOf(row), ChunkKind::kSteps);
  EXPECT_LT(row.size(), 700 * 4u);  // 22 bits of clock
  std::vector<model::StepRow> back;
  ASSERT_TRUE(DecodeStepChunk(row, 64, &back));
  EXPECT_THAT(back, ElementsAreArray(steps));
  for (size_t length = 0; length < row.size(); ++length) {
    EXPECT_FALSE(DecodeStepChunk(row.substr(0, length), 64, &back)) << length;
  }
  std::vector<ChunkPoint> points;
  EXPECT_FALSE(DecodeChunk(row, 64, &points));
}

}  // namespace
}  // namespace foreshock::store
