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

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/store/bytes.h"
#include "daemon/store/int_column.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/value_column.h"
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

// Rows that are put together by hand, as docs/formats/chunk.md describes them.

void PutHeadOf(uint8_t kind, uint64_t more_rows, uint64_t offset, std::string* out) {
  out->push_back(static_cast<char>(kind));
  PutVarint(more_rows, out);
  PutVarint(offset, out);
}
void PutDoubleOf(double value, std::string* out) {
  PutFixed(std::bit_cast<uint64_t>(value), 8, out);
}

// A column that ends where a good one would, and whose predictor does not exist.
constexpr absl::string_view kNoColumn("\x09\0\0", 3);

// 512 points of the value 3 in the window of step 1000, with a summary.
struct PointsRow {
  uint8_t kind = 1;
  uint64_t more_rows = 511;
  uint64_t offset = 5;
  uint64_t length = 511;
  uint64_t all_flags = 16;
  double min = 3, max = 3, sum = 3 * 512, last = 3;
  std::vector<int64_t> steps;
  std::vector<int64_t> flags = std::vector<int64_t>(512, 16);
  std::vector<double> values = std::vector<double>(512, 3);
  std::string rest;

  PointsRow() {
    for (int64_t i = 0; i < 512; ++i) steps.push_back(i);
  }
  std::string Bytes() const {
    std::string row;
    PutHeadOf(kind, more_rows, offset, &row);
    PutVarint(length, &row);
    PutVarint(all_flags, &row);
    for (const double value : {min, max, sum, last}) PutDoubleOf(value, &row);
    PutColumn(steps, &row);
    PutColumn(flags, &row);
    PutValues(model::Storage::kF32, values, &row);
    return row + rest;
  }
};

TEST(ChunkCodecTest, ARowOfPointsIsAsItsPageSays) {
  std::vector<ChunkPoint> points;
  for (int64_t i = 0; i < 512; ++i) points.push_back({1005 + i, 3, 16});
  EXPECT_EQ(PointsRow().Bytes(), EncodeChunk(model::Storage::kF32, 1000, points));
}

TEST(ChunkCodecTest, RefusesRowsOfPointsThatCannotBe) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const struct {
    const char* why;
    void (*damage)(PointsRow*);
    bool summary;  // the summary alone shows it
  } kBad[] = {
      {"no kind", [](PointsRow* row) { row->kind = 0; }, true},
      {"parts", [](PointsRow* row) { row->kind = 2; }, true},
      {"step rows", [](PointsRow* row) { row->kind = 3; }, true},
      {"no such kind", [](PointsRow* row) { row->kind = 4; }, true},
      {"too many points", [](PointsRow* row) { row->more_rows = kChunkPointsMax; }, true},
      {"begins before the window", [](PointsRow* row) { row->offset = uint64_t{1} << 63; }, true},
      {"ends where it begins", [](PointsRow* row) { row->length = 0; }, true},
      {"ends before it begins", [](PointsRow* row) { row->length = kU64Max; }, true},
      {"another last step", [](PointsRow* row) { row->length = 512; }, false},
      {"flags above 32 bits", [](PointsRow* row) { row->all_flags = kU32Max + 1; }, true},
      {"min is no number", [](PointsRow* row) { row->min = std::nan(""); }, true},
      {"min is infinite", [](PointsRow* row) { row->min = -kInfinity; }, true},
      {"max is infinite", [](PointsRow* row) { row->max = kInfinity; }, true},
      {"sum is infinite", [](PointsRow* row) { row->sum = -kInfinity; }, true},
      {"last is no number", [](PointsRow* row) { row->last = std::nan(""); }, true},
      {"min above max", [](PointsRow* row) { row->min = 3.5; }, true},
      {"does not begin at its first step",
       [](PointsRow* row) {
         for (int64_t& step : row->steps) ++step;
         ++row->length;
       },
       false},
      {"a step twice", [](PointsRow* row) { row->steps[7] = 6; }, false},
      {"a step back", [](PointsRow* row) { row->steps[7] = 5; }, false},
      {"negative flags", [](PointsRow* row) { row->flags[7] = -1; }, false},
      {"a point's flags above 32 bits",
       [](PointsRow* row) { row->flags[7] = int64_t{kU32Max} + 1; }, false},
      {"bytes left over", [](PointsRow* row) { row->rest = '\0'; }, false},
  };
  std::vector<ChunkPoint> points;
  ChunkSummary summary;
  ASSERT_TRUE(DecodeChunk(PointsRow().Bytes(), 1000, &points));
  ASSERT_TRUE(DecodeChunkSummary(PointsRow().Bytes(), 1000, &summary));
  for (const auto& [why, damage, in_summary] : kBad) {
    PointsRow row;
    damage(&row);
    EXPECT_FALSE(DecodeChunk(row.Bytes(), 1000, &points)) << why;
    EXPECT_EQ(DecodeChunkSummary(row.Bytes(), 1000, &summary), !in_summary) << why;
  }
}

// The varint that ends at `at`, one byte longer than it need be.
std::string WithLongVarint(std::string row, size_t at) {
  row[at] = static_cast<char>(row[at] | 0x80);
  return row.insert(at + 1, 1, '\0');
}

TEST(ChunkCodecTest, RefusesVarintsThatAreNotInTheirShortestForm) {
  const std::string row = PointsRow().Bytes();
  for (const size_t at : {2, 3, 5, 6}) {  // count, offset, length, flags
    std::vector<ChunkPoint> points;
    ChunkSummary summary;
    EXPECT_FALSE(DecodeChunk(WithLongVarint(row, at), 1000, &points)) << at;
    EXPECT_FALSE(DecodeChunkSummary(WithLongVarint(row, at), 1000, &summary)) << at;
  }
}

TEST(ChunkCodecTest, TheSummaryIsReadWithoutThePoints) {
  PointsRow row;
  row.length = 700;
  row.min = 1, row.max = 9, row.sum = 77, row.last = 4;
  ChunkSummary summary;
  ASSERT_TRUE(DecodeChunkSummary(row.Bytes().substr(0, 40), 1000, &summary));
  EXPECT_EQ(summary, (ChunkSummary{512, 1005, 1705, 1, 9, 77, 4, 16}));
  for (size_t length = 0; length < 39; ++length) {
    EXPECT_FALSE(DecodeChunkSummary(row.Bytes().substr(0, length), 1000, &summary)) << length;
  }
}

// Two parts of the window of step 1000.
struct PartsRow {
  uint8_t kind = 2;
  uint64_t more_rows = 1;
  uint64_t offset = 4;
  std::vector<int64_t> steps = {0, 16};
  std::vector<int64_t> lengths = {9, 0};
  std::vector<int64_t> counts = {10, 1};
  std::vector<int64_t> flags = {0, 64};
  std::vector<double> mins = {-1, 5}, maxima = {4, 5}, means = {2, 5}, lasts = {3, 5};
  int broken = -1;  // the number of a column that is none
  std::string rest;

  std::string Bytes() const {
    std::string row;
    int number = 0;
    PutHeadOf(kind, more_rows, offset, &row);
    for (const auto* column : {&steps, &lengths, &counts, &flags}) {
      if (number++ == broken) {
        absl::StrAppend(&row, kNoColumn);
      } else {
        PutColumn(*column, &row);
      }
    }
    for (const auto* column : {&mins, &maxima, &means, &lasts}) {
      if (number++ == broken) {
        row += absl::StrCat("\x06", kNoColumn);  // whole numbers
      } else {
        PutValues(model::Storage::kF64, *column, &row);
      }
    }
    return row + rest;
  }
};

TEST(ChunkCodecTest, ADownsampledRowIsAsItsPageSays) {
  const std::vector<ChunkSummary> parts = {{10, 1004, 1013, -1, 4, 20, 3, 0},
                                           {1, 1020, 1020, 5, 5, 5, 5, 64}};
  EXPECT_EQ(PartsRow().Bytes(), EncodeDownsampled(model::Storage::kF64, 1000, parts));
  std::vector<ChunkSummary> back;
  ASSERT_TRUE(DecodeDownsampled(PartsRow().Bytes(), 1000, &back));
  EXPECT_THAT(back, ElementsAreArray(parts));
}

TEST(ChunkCodecTest, MeansOfFloatsAreFloats) {
  const std::vector<ChunkSummary> parts = {{3, 4, 9, 1, 2, 4, 1, 0}};
  std::vector<ChunkSummary> back;
  const std::string floats = EncodeDownsampled(model::Storage::kF32, 0, parts);
  ASSERT_TRUE(DecodeDownsampled(floats, 0, &back));
  EXPECT_EQ(back[0].sum, 3 * static_cast<double>(static_cast<float>(4.0 / 3)));
  back.clear();
  ASSERT_TRUE(DecodeDownsampled(EncodeDownsampled(model::Storage::kI64, 0, parts), 0, &back));
  EXPECT_EQ(back[0].sum, 3 * (4.0 / 3)) << "a mean of whole numbers is a double";
}

TEST(ChunkCodecTest, APartThatIsLongerThanAllStepsIsRefused) {
  PartsRow row;
  row.lengths[0] = std::numeric_limits<int64_t>::min();  // added to a step it wraps to a later one
  std::vector<ChunkSummary> parts;
  EXPECT_FALSE(DecodeDownsampled(row.Bytes(), std::numeric_limits<int64_t>::min(), &parts));
}

TEST(ChunkCodecTest, RefusesDownsampledRowsThatCannotBe) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const struct {
    const char* why;
    void (*damage)(PartsRow*);
  } kBad[] = {
      {"points", [](PartsRow* row) { row->kind = 1; }},
      {"too many parts", [](PartsRow* row) { row->more_rows = kChunkPartsMax; }},
      {"begins before the window", [](PartsRow* row) { row->offset = uint64_t{1} << 63; }},
      {"a part twice", [](PartsRow* row) { row->steps[1] = 0; }},
      {"ends before it begins", [](PartsRow* row) { row->lengths[0] = -1; }},
      {"ends behind the last step", [](PartsRow* row) { row->lengths[0] = kLastStep; }},
      {"an empty part", [](PartsRow* row) { row->counts[1] = 0; }},
      {"a negative count", [](PartsRow* row) { row->counts[1] = -1; }},
      {"a count above 32 bits", [](PartsRow* row) { row->counts[1] = int64_t{kU32Max} + 1; }},
      {"flags above 32 bits", [](PartsRow* row) { row->flags[0] = int64_t{kU32Max} + 1; }},
      {"min above max", [](PartsRow* row) { row->mins[0] = 4.5; }},
      {"a mean below min", [](PartsRow* row) { row->means[0] = -1.5; }},
      {"a mean above max", [](PartsRow* row) { row->means[0] = 4.5; }},
      {"a min that is infinite", [](PartsRow* row) { row->mins[0] = -kInfinity; }},
      {"a max that is infinite", [](PartsRow* row) { row->maxima[0] = kInfinity; }},
      {"a mean that is no number", [](PartsRow* row) { row->means[0] = std::nan(""); }},
      {"a last that is infinite", [](PartsRow* row) { row->lasts[0] = kInfinity; }},
      {"no steps", [](PartsRow* row) { row->broken = 0; }},
      {"no lengths", [](PartsRow* row) { row->broken = 1; }},
      {"no counts", [](PartsRow* row) { row->broken = 2; }},
      {"no flags", [](PartsRow* row) { row->broken = 3; }},
      {"no minima", [](PartsRow* row) { row->broken = 4; }},
      {"no maxima", [](PartsRow* row) { row->broken = 5; }},
      {"no means", [](PartsRow* row) { row->broken = 6; }},
      {"no lasts", [](PartsRow* row) { row->broken = 7; }},
      {"bytes left over", [](PartsRow* row) { row->rest = '\0'; }},
  };
  for (const auto& [why, damage] : kBad) {
    PartsRow row;
    damage(&row);
    std::vector<ChunkSummary> parts;
    EXPECT_FALSE(DecodeDownsampled(row.Bytes(), 1000, &parts)) << why;
    ChunkSummary summary;
    EXPECT_FALSE(DecodeChunkSummary(row.Bytes(), 1000, &summary)) << why;
  }
}

TEST(ChunkCodecTest, SumsOfHugeValuesStayTheLargestDouble) {
  constexpr double kMax = std::numeric_limits<double>::max();
  for (const double sign : {1.0, -1.0}) {
    const std::vector<ChunkPoint> points = {{0, sign * kMax, 0}, {1, sign * kMax, 0}};
    const ChunkSummary summary = Summarise(points);
    EXPECT_EQ(summary.sum, sign * kMax);
    EXPECT_EQ(Join({summary, summary}).sum, sign * kMax);
    std::vector<ChunkSummary> back;
    PartsRow row;
    row.more_rows = 0;
    row.steps = {0}, row.lengths = {9}, row.counts = {10}, row.flags = {0};
    row.mins = row.maxima = row.means = row.lasts = {sign * kMax};
    ASSERT_TRUE(DecodeDownsampled(row.Bytes(), 1000, &back));
    EXPECT_EQ(back[0].sum, sign * kMax);
  }
}

TEST(ChunkCodecTest, NeighboursJoinToWhatAllTheirPointsHaveInCommon) {
  const std::vector<ChunkPoint> points = {{3, 2, 1}, {4, -1, 0}, {9, 7, 4}, {12, 3, 8}};
  const absl::Span<const ChunkPoint> all = points;
  EXPECT_EQ(Summarise(all), (ChunkSummary{4, 3, 12, -1, 7, 11, 3, 13}));
  EXPECT_EQ(Summarise(all.subspan(1, 1)), (ChunkSummary{1, 4, 4, -1, -1, -1, -1, 0}));
  for (size_t cut = 1; cut < points.size(); ++cut) {
    EXPECT_EQ(Join({Summarise(all.first(cut)), Summarise(all.subspan(cut))}), Summarise(all));
  }
  EXPECT_EQ(Join({Summarise(all)}), Summarise(all));
}

// Two rows of the window of step 64.
struct StepsRow {
  uint8_t kind = 3;
  uint64_t more_rows = 1;
  uint64_t offset = 36;
  std::vector<int64_t> steps = {0, 2};
  std::vector<int64_t> times = {1000, -5};
  std::vector<int64_t> tokens = {7, -1};
  std::vector<int64_t> ranks = {2, kU32Max};
  std::vector<int64_t> bits = {0, 7};
  int broken = -1;  // the number of a column that is none
  std::string rest;

  std::string Bytes() const {
    std::string row;
    int number = 0;
    PutHeadOf(kind, more_rows, offset, &row);
    for (const auto* column : {&steps, &times, &tokens, &ranks, &bits}) {
      if (number++ == broken) {
        absl::StrAppend(&row, kNoColumn);
      } else {
        PutColumn(*column, &row);
      }
    }
    return row + rest;
  }
};

TEST(ChunkCodecTest, ARowOfStepsIsAsItsPageSays) {
  const std::vector<model::StepRow> steps = {
      {0, 100, 1000, 7, 2, false, false, false},
      {0, 102, -5, std::numeric_limits<uint64_t>::max(), kU32Max, true, true, true}};
  EXPECT_EQ(StepsRow().Bytes(), EncodeStepChunk(64, steps));
  std::vector<model::StepRow> back = {steps[1]};
  ASSERT_TRUE(DecodeStepChunk(StepsRow().Bytes(), 64, &back));
  EXPECT_THAT(back, ::testing::ElementsAre(steps[1], steps[0], steps[1]));  // it appends
  uint32_t count = 0;
  ASSERT_TRUE(DecodeChunkCount(StepsRow().Bytes(), &count));
  EXPECT_EQ(count, 2u);
}

TEST(ChunkCodecTest, RefusesRowsOfStepsThatCannotBe) {
  const struct {
    const char* why;
    void (*damage)(StepsRow*);
  } kBad[] = {
      {"points", [](StepsRow* row) { row->kind = 1; }},
      {"too many rows", [](StepsRow* row) { row->more_rows = kChunkPointsMax; }},
      {"begins before the window", [](StepsRow* row) { row->offset = uint64_t{1} << 63; }},
      {"a step twice", [](StepsRow* row) { row->steps[1] = 0; }},
      {"negative ranks", [](StepsRow* row) { row->ranks[0] = -1; }},
      {"ranks above 32 bits", [](StepsRow* row) { row->ranks[0] = int64_t{kU32Max} + 1; }},
      {"a fourth bit", [](StepsRow* row) { row->bits[0] = 8; }},
      {"negative bits", [](StepsRow* row) { row->bits[0] = -1; }},
      {"no steps", [](StepsRow* row) { row->broken = 0; }},
      {"no times", [](StepsRow* row) { row->broken = 1; }},
      {"no tokens", [](StepsRow* row) { row->broken = 2; }},
      {"no ranks", [](StepsRow* row) { row->broken = 3; }},
      {"no bits", [](StepsRow* row) { row->broken = 4; }},
      {"bytes left over", [](StepsRow* row) { row->rest = '\0'; }},
  };
  for (const auto& [why, damage] : kBad) {
    StepsRow row;
    damage(&row);
    std::vector<model::StepRow> steps;
    EXPECT_FALSE(DecodeStepChunk(row.Bytes(), 64, &steps)) << why;
  }
}

TEST(ChunkCodecTest, TheKindAndTheNumberOfRowsAreInFront) {
  uint32_t count = 0;
  EXPECT_EQ(KindOf(""), ChunkKind::kNone);
  EXPECT_FALSE(DecodeChunkCount("", &count));
  EXPECT_FALSE(DecodeChunkCount(std::string("\0\1\0", 3), &count)) << "no kind";
  EXPECT_FALSE(DecodeChunkCount("\4\1", &count)) << "no such kind";
  EXPECT_FALSE(DecodeChunkCount("\1", &count)) << "no number";
  EXPECT_FALSE(DecodeChunkCount("\1\x80\x80\4", &count)) << "65 537 points";
  ASSERT_TRUE(DecodeChunkCount("\1\xff\xff\3", &count));
  EXPECT_EQ(count, kChunkPointsMax);
  ASSERT_TRUE(DecodeChunkCount(PointsRow().Bytes(), &count));
  EXPECT_EQ(count, 512u);
}

}  // namespace
}  // namespace foreshock::store
