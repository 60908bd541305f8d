#include "daemon/store/value_column.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/store/bytes.h"
#include "daemon/store/int_column.h"
#include "daemon/store/row_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/store/chunk_page.h"

namespace foreshock::store {
namespace {

using model::Storage;

std::string Put(Storage storage, const std::vector<double>& values) {
  std::string row;
  PutValues(storage, values, &row);
  return row;
}

std::vector<uint64_t> BitsOf(const std::vector<double>& values) {
  std::vector<uint64_t> bits;
  for (const double value : values) bits.push_back(std::bit_cast<uint64_t>(value));
  return bits;
}

// The page and the decoder read the same bits back; answers the form.
int ExpectComesBack(Storage storage, const std::vector<double>& values) {
  const std::string row = Put(storage, values);
  PageReader page(row);
  EXPECT_EQ(BitsOf(page.Values(values.size())), BitsOf(values));
  EXPECT_EQ(page.bytes_read(), row.size());
  const std::string more = row + "rest";
  absl::string_view in = more;
  std::vector<double> back(values.size());
  EXPECT_TRUE(TakeValues(&in, absl::MakeSpan(back)));
  EXPECT_EQ(in, "rest");
  EXPECT_EQ(BitsOf(back), BitsOf(values));
  return page.form();
}

struct ValueKind {
  const char* name;
  int form;
  Storage storage;
  double (*next)(int i, std::mt19937_64* random);  // a value as `storage` keeps it
};

double Noise(std::mt19937_64* random) { return std::normal_distribution<double>()(*random); }

const ValueKind kValueKinds[] = {
    {"floats", 0, Storage::kF32,
     [](int, std::mt19937_64* random) -> double {
       return static_cast<float>(std::exp(Noise(random)));
     }},
    {"negative floats", 1, Storage::kF32,
     [](int, std::mt19937_64* random) -> double {
       return static_cast<float>(-std::exp(Noise(random)));
     }},
    {"floats of both signs", 2, Storage::kF32,
     [](int i, std::mt19937_64* random) -> double {
       return static_cast<float>((i % 2 == 0 ? 1 : -1) * std::exp(Noise(random)));
     }},
    {"doubles", 3, Storage::kF64,
     [](int, std::mt19937_64* random) { return std::exp(Noise(random)); }},
    {"negative doubles", 4, Storage::kF64,
     [](int, std::mt19937_64* random) { return -std::exp(Noise(random)); }},
    {"doubles of both signs", 5, Storage::kF64,
     [](int i, std::mt19937_64* random) {
       return (i % 2 == 0 ? 1 : -1) * std::exp(Noise(random));
     }},
    {"counts", 6, Storage::kI64,
     [](int, std::mt19937_64* random) { return static_cast<double>((*random)() >> 20) - 1e12; }},
    {"shares", 7, Storage::kF32,
     [](int, std::mt19937_64* random) -> double {
       return static_cast<float>(static_cast<double>(1000 + (*random)() % 500) / 24576);
     }},
    {"shares of both signs", 7, Storage::kF32,
     [](int i, std::mt19937_64* random) -> double {
       const double sign = i % 2 == 0 ? 1 : -1;
       return static_cast<float>(sign * static_cast<double>(1 + (*random)() % 90) / 96);
     }},
    {"a double among floats", 3, Storage::kF32,
     [](int i, std::mt19937_64* random) -> double {
       return i == 3 ? 1e300 : static_cast<float>(std::exp(Noise(random)));
     }},
    {"a double among counts", 5, Storage::kI64,
     [](int i, std::mt19937_64*) { return i == 3 ? -0.5 : i; }},
};

TEST(ValueColumnTest, EveryFormIsAsItsPageSays) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const ValueKind& kind : kValueKinds) {
    for (int round = 0; round < 20; ++round) {
      std::vector<double> values;
      for (int i = 0; i < 40; ++i) values.push_back(kind.next(i, &random));
      ASSERT_EQ(ExpectComesBack(kind.storage, values), kind.form) << kind.name;
    }
  }
}

TEST(ValueColumnTest, SharesOfEveryCountAreFractions) {
  std::mt19937_64 random(3);
  for (const int count : {3, 7, 96, 128, 1000, 8191, 24576}) {
    for (const int sign : {1, -1}) {
      std::vector<double> values;
      for (int i = 0; i < 64; ++i) {
        const auto numerator = static_cast<double>(random() % static_cast<uint64_t>(count) / 2 + 1);
        values.push_back(static_cast<float>(sign * numerator / count));
      }
      EXPECT_EQ(ExpectComesBack(Storage::kF32, values), 7) << count;
    }
  }
}

TEST(ValueColumnTest, WhatHasNoCommonDenominatorIsKeptAsItsBits) {
  std::mt19937_64 random(4);
  const auto expect_bits = [](std::vector<double> values) {
    EXPECT_LT(ExpectComesBack(Storage::kF32, values), 3);
  };
  expect_bits({1.0f / 3, 1.0f / 3});  // one value alone says nothing
  expect_bits({0.0, 0.0, 0.0});
  expect_bits({-0.0, 0.25, 0.5});                      // a fraction has no negative zero
  expect_bits({1e30f, 3e30f, 7e30f});                  // numerators beyond 2^53
  expect_bits({0x1p-25, 3 * 0x1p-25, 0.5 + 0x1p-24});  // a denominator beyond 2^24
  for (int round = 0; round < 50; ++round) {
    std::vector<double> values;
    for (int i = 0; i < 20; ++i) values.push_back(static_cast<float>(Noise(&random)));
    expect_bits(values);
  }
}

// Bits that all values have as zeros are not there; a double has no more than 31 of them left out.
TEST(ValueColumnTest, LowZerosAreLeftOut) {
  const auto head = [](Storage storage, const std::vector<double>& values) {
    ExpectComesBack(storage, values);
    return static_cast<uint8_t>(Put(storage, values)[0]);
  };
  EXPECT_EQ(head(Storage::kF32, {1.5f, 1.5f}), 22 << 3);
  EXPECT_EQ(head(Storage::kF32, {-1.5f, -1.5f}), 1 | 22 << 3);
  EXPECT_EQ(head(Storage::kF32, {0, 0}), 23 << 3);
  EXPECT_EQ(head(Storage::kF32, {-0.0, -0.0}), 1 | 23 << 3);
  EXPECT_EQ(head(Storage::kF32, {-0.0, 0.0}), 2 | 23 << 3);
  EXPECT_EQ(head(Storage::kF64, {1.5, 3}), 3 | 31 << 3);
  EXPECT_EQ(head(Storage::kF64, {1 + 0x1p-30, 1}), 3 | 22 << 3);
}

// 400 values each. If one grows, so does every store.
TEST(ValueColumnTest, SizesOfKnownColumns) {
  const auto size = [](Storage storage, double (*value)(int)) {
    std::vector<double> values;
    for (int i = 0; i < 400; ++i) values.push_back(Kept(storage, value(i)));
    return Put(storage, values).size();
  };
  EXPECT_EQ(size(Storage::kF32, [](int i) { return (i * i * 7919 % 1009) / 2048.0; }), 531u);
  EXPECT_EQ(size(Storage::kF32, [](int i) { return (i * i * 7919 % 1009) / 3072.0; }), 531u);
  EXPECT_EQ(size(Storage::kF32, [](int i) { return 1.0 / (3 + i); }), 727u);
  EXPECT_EQ(size(Storage::kF64, [](int i) { return 1.0 / (3 + i); }), 2166u);
  EXPECT_EQ(size(Storage::kI64, [](int i) { return 1e6 * (i * i * 7919 % 1009); }), 1526u);
}

TEST(ValueColumnTest, RefusesWhatIsNoColumn) {
  const auto bits = [](uint8_t head, uint64_t word) {
    std::string row(1, static_cast<char>(head));
    PutColumn({static_cast<int64_t>(word)}, &row);
    return row;
  };
  const auto fraction = [](uint64_t denominator) {
    std::string row(1, '\7');
    PutVarint(denominator, &row);
    PutColumn({1}, &row);
    return row;
  };
  constexpr uint64_t kInfinity32 = 0x7f800000, kInfinity64 = 0x7ff0000000000000;
  const struct {
    std::string row;
    bool good;
    const char* why;
  } kCases[] = {
      {"", false, "nothing"},
      {std::string(1, '\6'), false, "no column"},
      {bits(0, kInfinity32 - 1), true, "the largest float"},
      {bits(0, kInfinity32), false, "an infinite float"},
      {bits(1, kInfinity32), false, "minus infinity"},
      {bits(2, kInfinity32 * 2 - 2), true, "the largest float, signs mixed"},
      {bits(2, kInfinity32 * 2), false, "an infinite float, signs mixed"},
      {bits(0, uint64_t{1} << 40), false, "more bits than a float has"},
      {bits(0 | 23 << 3, (kInfinity32 >> 23) - 1), true, "all of the fraction dropped"},
      {bits(0 | 23 << 3, kInfinity32 >> 23), false, "infinite with all of the fraction dropped"},
      {bits(0 | 24 << 3, 1), false, "more dropped than the fraction has"},
      {bits(3, kInfinity64 - 1), true, "the largest double"},
      {bits(3, kInfinity64), false, "an infinite double"},
      {bits(3 | 31 << 3, 1), true, "31 bits of a double dropped"},
      {bits(6, 7), true, "a whole number"},
      {bits(6 | 1 << 3, 7), false, "a whole number with bits dropped"},
      {fraction(1 << 24), true, "the largest denominator"},
      {fraction((1 << 24) + 1), false, "a denominator that is too large"},
      {fraction(0), false, "a denominator of 0"},
      {bits(7 | 1 << 3, 7), false, "a fraction with bits dropped"},
  };
  for (const auto& [row, good, why] : kCases) {
    absl::string_view in = row;
    std::vector<double> values(1);
    EXPECT_EQ(TakeValues(&in, absl::MakeSpan(values)), good) << why;
  }
}

}  // namespace
}  // namespace foreshock::store
