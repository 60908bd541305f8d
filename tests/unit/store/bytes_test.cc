// Integers of a fixed width, varints, and bits in bytes.
#include "daemon/store/bytes.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "daemon/store/bit_stream.h"
#include "daemon/store/predictor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

using ::testing::ElementsAre;

std::string Varint(uint64_t value) {
  std::string out;
  PutVarint(value, &out);
  return absl::BytesToHexString(out);
}

TEST(BytesTest, VarintsAreInTheirShortestForm) {
  const std::pair<uint64_t, std::string> kKnown[] = {{0, "00"},
                                                     {1, "01"},
                                                     {127, "7f"},
                                                     {128, "8001"},
                                                     {16383, "ff7f"},
                                                     {16384, "808001"},
                                                     {kU32Max, "ffffffff0f"},
                                                     {uint64_t{1} << 63, "80808080808080808001"},
                                                     {kU64Max, "ffffffffffffffffff01"}};
  for (const auto& [value, hex] : kKnown) {
    EXPECT_EQ(Varint(value), hex);
    const std::string row = absl::HexStringToBytes(hex);
    absl::string_view in = row;
    uint64_t back = kU64Max;
    ASSERT_TRUE(TakeVarint(value, &in, &back)) << hex;
    EXPECT_EQ(back, value);
    EXPECT_TRUE(in.empty());
    for (size_t length = 0; length < row.size(); ++length) {
      in = absl::string_view(row).substr(0, length);
      EXPECT_FALSE(TakeVarint(kU64Max, &in, &back)) << hex << " cut to " << length;
    }
    if (value == 0) continue;
    in = row;
    EXPECT_FALSE(TakeVarint(value - 1, &in, &back)) << hex << " is above the most";
  }
  for (const char* hex :
       {"8000", "ff00", "ffffffffffffffffff02", "ffffffffffffffffff7f", "8080808080808080808001"}) {
    const std::string row = absl::HexStringToBytes(hex);
    absl::string_view in = row;
    uint64_t back = 0;
    EXPECT_FALSE(TakeVarint(kU64Max, &in, &back)) << hex;
  }
}

TEST(BytesTest, FixedWidthsAreLittleEndian) {
  for (int bytes = 0; bytes <= 8; ++bytes) {
    std::string out = "x";
    PutFixed(0x8877665544332211, bytes, &out);
    EXPECT_EQ(absl::BytesToHexString(out),
              std::string("781122334455667788").substr(0, 2 + 2 * static_cast<size_t>(bytes)));
    absl::string_view in = absl::string_view(out).substr(1);
    uint64_t back = 7;
    EXPECT_FALSE(TakeFixed(static_cast<size_t>(bytes) + 1, &in, &back));
    ASSERT_TRUE(TakeFixed(static_cast<size_t>(bytes), &in, &back));
    EXPECT_EQ(back, bytes == 8 ? 0x8877665544332211
                               : 0x8877665544332211 & ((uint64_t{1} << (8 * bytes)) - 1));
    EXPECT_TRUE(in.empty());
  }
}

TEST(BytesTest, ZigZagOrdersBySize) {
  const int64_t kLowest = std::numeric_limits<int64_t>::min();
  const std::pair<int64_t, uint64_t> kKnown[] = {
      {0, 0}, {-1, 1}, {1, 2}, {-2, 3}, {2, 4}, {-(kLowest + 1), kU64Max - 1}, {kLowest, kU64Max}};
  for (const auto& [value, code] : kKnown) {
    EXPECT_EQ(ZigZag(value), code);
    EXPECT_EQ(UnZigZag(code), value);
  }
}

TEST(BitStreamTest, BitsComeBackInTheOrderTheyWerePut) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<uint64_t, int>> put;
    std::string plain;  // a character a bit
    std::string row = "head";
    BitWriter writer(&row);
    for (uint64_t n = random() % 40; n > 0; --n) {
      const auto bits = static_cast<int>(random() % 64);
      const uint64_t value = random() & ((uint64_t{1} << bits) - 1);
      put.emplace_back(value, bits);
      for (int i = 0; i < bits; ++i) plain += static_cast<char>('0' + (value >> i & 1));
      writer.Put(value, bits);
    }
    writer.Finish();
    ASSERT_EQ(row.size(), 4 + (plain.size() + 7) / 8);
    for (size_t i = 0; i < (row.size() - 4) * 8; ++i) {
      const char bit =
          static_cast<char>('0' + (static_cast<uint8_t>(row[4 + i / 8]) >> (i % 8) & 1));
      ASSERT_EQ(bit, i < plain.size() ? plain[i] : '0') << i;
    }
    BitReader reader(absl::string_view(row).substr(4));
    size_t position = 0;
    for (const auto& [value, bits] : put) {
      const int low = std::min(bits, 57);
      ASSERT_EQ(reader.Peek() & ((uint64_t{1} << low) - 1), value & ((uint64_t{1} << low) - 1));
      reader.Skip(bits);
      position += static_cast<size_t>(bits);
      ASSERT_EQ(reader.bytes(), (position + 7) / 8);
    }
    EXPECT_TRUE(reader.PaddedWithZeros());
    EXPECT_EQ(reader.Peek(), 0u) << "zeros behind the end";
  }
}

TEST(BitStreamTest, PaddingIsTheRestOfTheLastByte) {
  const std::string row = absl::HexStringToBytes("ff01");
  BitReader reader(row);
  EXPECT_TRUE(reader.PaddedWithZeros()) << "nothing read, nothing padded";
  reader.Skip(7);
  EXPECT_FALSE(reader.PaddedWithZeros());
  reader.Skip(1);
  EXPECT_TRUE(reader.PaddedWithZeros());
  reader.Skip(1);
  EXPECT_TRUE(reader.PaddedWithZeros()) << "01 but for its lowest bit";
  EXPECT_EQ(reader.bytes(), 2u);
  reader.Skip(8);
  EXPECT_EQ(reader.bytes(), 3u) << "read behind the end";
}

template <typename Predictor>
std::vector<int64_t> Predictions(Predictor predictor, const std::vector<int64_t>& values) {
  std::vector<int64_t> predictions;
  for (const int64_t value : values) {
    predictions.push_back(predictor.Next());
    predictor.Add(value);
  }
  return predictions;
}

// Worked by hand from docs/formats/chunk.md.
TEST(PredictorTest, ArithmeticIsThePages) {
  EXPECT_THAT(Predictions(LevelPredictor<0>(), {5, 7, -1, 3}), ElementsAre(0, 5, 7, -1));
  // scaled: 5, 10, 4, 5
  EXPECT_THAT(Predictions(LevelPredictor<1>(), {5, 7, -1, 3}), ElementsAre(0, 2, 5, 2));
  // scaled: 100, 175, -1: -1 >> 2 is -1
  EXPECT_THAT(Predictions(LevelPredictor<2>(), {100, 100, -133, 9}), ElementsAre(0, 25, 43, -1));
  EXPECT_THAT(Predictions(SlopePredictor<0>(), {5, 7, 8, 8}), ElementsAre(0, 10, 9, 9));
  // scaled: 16, 30, 36
  EXPECT_THAT(Predictions(SlopePredictor<3>(), {16, 32, 41, 0}), ElementsAre(0, 18, 35, 45));
  const int64_t kHighest = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(Predictions(SlopePredictor<0>(), {kHighest, -1}), ElementsAre(0, -2)) << "it wraps";
}

TEST(PredictorTest, NumbersBeyondTheLastHaveNone) {
  int used = 0;
  for (uint64_t number = 0; number < 10; ++number) {
    WithPredictor(number, [&used](auto) { ++used; });
  }
  EXPECT_EQ(used, 6);
}

}  // namespace
}  // namespace foreshock::store
