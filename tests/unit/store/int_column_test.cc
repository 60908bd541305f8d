#include "daemon/store/int_column.h"

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

using ::testing::ElementsAreArray;

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

std::string Put(const std::vector<int64_t>& values) {
  std::string row;
  PutColumn(values, &row);
  return row;
}

void ExpectComesBack(const std::vector<int64_t>& values) {
  const std::string row = Put(values) + "rest";
  absl::string_view in = row;
  std::vector<int64_t> back(values.size());
  ASSERT_TRUE(TakeColumn(&in, absl::MakeSpan(back)));
  EXPECT_EQ(in, "rest");
  EXPECT_THAT(back, ElementsAreArray(values));
}

TEST(IntColumnTest, AnyIntegersComeBack) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const std::vector<int64_t>& values : std::vector<std::vector<int64_t>>{
           {0},
           {kLowest},
           {kHighest},
           {kLowest, kHighest},
           {kHighest, kLowest, kHighest, kLowest, 0, kLowest},
           {-1, -1, -1},
           {kLowest, -1, kHighest - 1},  // a line that wraps no further
           {1, 2, 3, 5, 6, 7, 8, 100, 101}}) {
    ExpectComesBack(values);
  }
  for (int width = 0; width <= 64; ++width) {  // of the noise
    std::vector<int64_t> values;
    int64_t walk = 0;
    for (int i = 0; i < 300; ++i) {
      const uint64_t noise = width == 0 ? 0 : random() >> (64 - width);
      walk = static_cast<int64_t>(static_cast<uint64_t>(walk) + (i % 2 == 0 ? noise : 0 - noise));
      values.push_back(walk);
    }
    ExpectComesBack(values);
    std::vector<int64_t> spikes(300, 7);  // quiet, then a value of any size: the escape
    spikes[200] = static_cast<int64_t>(random() >> (64 - std::max(width, 1)));
    for (size_t i = 1; i < spikes.size(); i += 3) spikes[i] += static_cast<int64_t>(random() % 2);
    ExpectComesBack(spikes);
  }
}

TEST(IntColumnTest, WhatIsRegularCostsNothing) {
  std::vector<int64_t> values(1 << 16, 0);
  EXPECT_EQ(Put(values).size(), 2u);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(10 * i);
  EXPECT_EQ(Put(values).size(), 3u);
  for (size_t i = values.size() / 2; i < values.size(); ++i) values[i] += 10;  // one is missing
  EXPECT_LE(Put(values).size(), 12u);
}

TEST(IntColumnTest, NoiseCostsAboutItsEntropy) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<int64_t> values;
  for (int i = 0; i < 4096; ++i) values.push_back(static_cast<int64_t>(random() % 4096));
  EXPECT_LT(Put(values).size(), 4096 * 14 / 8);  // 12 bits, and 1.6 for not being geometric
}

TEST(IntColumnTest, RefusesWhatIsNoColumn) {
  const struct {
    const char* hex;
    const char* why;
  } kBad[] = {
      {"", "nothing"},
      {"00", "no first value"},
      {"0100", "a line without a difference"},
      {"0200", "no segment"},
      {"02000203", "a segment that is longer than the column"},
      {"0900", "no such predictor"},
      {"ff00", "no such predictor"},
      {"03000a", "no residuals"},
      {"03003affffffff", "more low bits than there can be"},
      {"0300000000000000000000", "an unary part without end"},
      {"0300000f", "bits behind the last residual"},
  };
  for (const auto& [hex, why] : kBad) {
    const std::string row = absl::HexStringToBytes(hex);
    absl::string_view in = row;
    std::vector<int64_t> values(4);
    EXPECT_FALSE(TakeColumn(&in, absl::MakeSpan(values))) << why;
  }
}

}  // namespace
}  // namespace foreshock::store
