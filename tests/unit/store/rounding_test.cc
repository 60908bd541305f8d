#include "daemon/store/rounding.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

void ExpectKept(double precision, double value) {
  const double rounded = RoundTo(precision, value);
  EXPECT_TRUE(std::isfinite(rounded)) << value;
  EXPECT_LE(std::fabs(rounded - value), precision * std::fabs(value)) << value;
  EXPECT_EQ(std::signbit(rounded), std::signbit(value)) << value;
  EXPECT_EQ(rounded == 0, value == 0) << value;
  EXPECT_EQ(RoundTo(precision, rounded), rounded) << value;
}

TEST(RoundingTest, AnyFiniteValueStaysWithinThePrecision) {
  const uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<double>(random());  // all exponents, subnormals too
    if (std::isfinite(value)) ExpectKept(1e-4, value);
  }
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.0, 1.0, 0.1, 1.0 - Limits::epsilon(), 1.99999, 1e-39,
                             double{std::numeric_limits<float>::max()}, Limits::max(),
                             Limits::min(), Limits::denorm_min(), 0x1.0003ffffffffp-126}) {
    for (const double precision : {0.0, 1e-12, 0x1p-14, 1e-4, 1e-2, 0.5}) {
      ExpectKept(precision, value);
      ExpectKept(precision, -value);
    }
  }
}

TEST(RoundingTest, KeepsAsManyBitsAsThePrecisionNeeds) {
  EXPECT_EQ(RoundTo(0, 1.0 / 3), 1.0 / 3);
  EXPECT_EQ(RoundTo(1e-17, 1.0 / 3), 1.0 / 3);
  EXPECT_EQ(RoundTo(1e-4, 1.0 / 3), 0x1.5558p-2);          // 13 bits behind the point
  EXPECT_EQ(RoundTo(1e-4, 1 + 0x1p-14), 1.0);              // half way: the even one
  EXPECT_EQ(RoundTo(1e-4, 1 + 3 * 0x1p-14), 1 + 0x1p-12);  // half way: the even one
  EXPECT_EQ(RoundTo(1e-4, 1 + 1.001 * 0x1p-14), 1 + 0x1p-13);
  EXPECT_EQ(RoundTo(1e-4, 2 - 0x1p-16), 2.0);  // into the next power of two
}

}  // namespace
}  // namespace foreshock::store
