#include "daemon/store/int_column.h"

#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/store/chunk_page.h"

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

// Columns that suit one form or predictor each, and the bytes they take: if one grows, so does
// every store.
struct IntKind {
  const char* name;
  int form;
  int64_t (*next)(int64_t i, int64_t last, std::mt19937_64* random);
  size_t bytes;  // of 400 values with the seed 1
};
const IntKind kIntKinds[] = {
    {"constant", 0, [](int64_t, int64_t, std::mt19937_64*) -> int64_t { return -7; }, 2},
    {"line", 1, [](int64_t i, int64_t, std::mt19937_64*) -> int64_t { return 100 - 3 * i; }, 4},
    {"two lines", 2,
     [](int64_t i, int64_t, std::mt19937_64*) -> int64_t { return i < 50 ? 2 * i : 7 * i; }, 9},
    {"walk", 3,
     [](int64_t, int64_t last, std::mt19937_64* random) -> int64_t {
       return last + static_cast<int64_t>((*random)() % 9) - 4;
     },
     185},
    {"any bits", 7,
     [](int64_t, int64_t, std::mt19937_64* random) -> int64_t {
       return static_cast<int64_t>((*random)());
     },
     4092},
    {"noise about a level that rises ever faster", 4,
     [](int64_t i, int64_t, std::mt19937_64* random) -> int64_t {
       return i * i / 100 + static_cast<int64_t>((*random)() % 64);
     },
     338},
    {"noise about a level that rises", 5,
     [](int64_t i, int64_t, std::mt19937_64* random) -> int64_t {
       return i + static_cast<int64_t>((*random)() % 128);
     },
     382},
    {"noise", 6,
     [](int64_t, int64_t, std::mt19937_64* random) -> int64_t {
       return static_cast<int64_t>((*random)() % 1000);
     },
     530},
    {"a smooth curve", 7,
     [](int64_t i, int64_t, std::mt19937_64*) -> int64_t { return i * i * i / 16; }, 430},
    {"quiet, but for a spike now and then", 3,
     [](int64_t i, int64_t, std::mt19937_64* random) -> int64_t {
       return static_cast<int64_t>((*random)() % 2) + (i % 100 == 60 ? int64_t{1} << 50 : 0);
     },
     2013},
    {"a clock", 8,
     [](int64_t i, int64_t, std::mt19937_64* random) -> int64_t {
       return 1000 * i + static_cast<int64_t>((*random)() % 256);
     },
     469},
};

TEST(IntColumnTest, ColumnsAreAsTheirPageSays) {
  for (const IntKind& kind : kIntKinds) {
    std::mt19937_64 random(1);
    std::vector<int64_t> values = {kind.next(0, 0, &random)};
    for (int64_t i = 1; i < 400; ++i) values.push_back(kind.next(i, values.back(), &random));
    const std::string row = Put(values);
    PageReader page(row);
    EXPECT_EQ(page.Integers(values.size()), values) << kind.name;
    EXPECT_EQ(page.bytes_read(), row.size()) << kind.name;
    EXPECT_EQ(page.form(), kind.form) << kind.name;
    EXPECT_EQ(row.size(), kind.bytes) << kind.name;
    ExpectComesBack(values);
  }
}

TEST(IntColumnTest, RandomColumnsOfEveryFormAreAsTheirPageSays) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::set<int> forms;
  for (int round = 0; round < 300; ++round) {
    const IntKind& kind = kIntKinds[random() % std::size(kIntKinds)];
    const auto shift = static_cast<int>(random() % 8);  // a scale of its own
    const auto count = static_cast<int64_t>(2 + random() % 200);
    std::vector<int64_t> values = {kind.next(0, 0, &random)};
    for (int64_t i = 1; i < count; ++i) {
      values.push_back(kind.next(i, values.back(), &random));
    }
    for (int64_t& value : values)
      value = static_cast<int64_t>(static_cast<uint64_t>(value) << shift);
    const std::string row = Put(values);
    PageReader page(row);
    ASSERT_EQ(page.Integers(values.size()), values) << kind.name;
    ASSERT_EQ(page.bytes_read(), row.size());
    forms.insert(page.form());
    ExpectComesBack(values);
  }
  EXPECT_THAT(forms, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
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
      {"0900", "no such predictor, and nothing behind it"},
      {"090000", "no such predictor"},
      {"008000", "a first value that is not in its shortest form"},
      {"0100800002", "a difference that is not in its shortest form"},
      {"0200820000", "a segment's difference that is not in its shortest form"},
      {"0200028000", "a segment's length that is not in its shortest form"},
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
  const struct {
    const char* hex;
    size_t values;
    const char* why;
  } kBadOfLength[] = {
      {"0300", 1, "no low bits"},
      {"03003a0100000000000000", 2, "a residual with 58 low bits"},
  };
  for (const auto& [hex, count, why] : kBadOfLength) {
    const std::string row = absl::HexStringToBytes(hex);
    absl::string_view in = row;
    std::vector<int64_t> values(count);
    EXPECT_FALSE(TakeColumn(&in, absl::MakeSpan(values))) << why;
  }
  const std::string endless = absl::HexStringToBytes("030000") + std::string(100, '\0');
  absl::string_view in = endless;
  std::vector<int64_t> values(4);
  EXPECT_FALSE(TakeColumn(&in, absl::MakeSpan(values))) << "more zeros than announce plain bits";
}

}  // namespace
}  // namespace foreshock::store
