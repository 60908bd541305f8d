#include "daemon/detect/drift.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

namespace foreshock::detect {
namespace {

constexpr Limits kDrifts{.side = Side::kUp, .logarithm = true, .size = 1};

template <typename Value>
std::optional<int64_t> FirstDrift(int rows, const Value& value) {
  Drift drift(kDrifts);
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 0.1);
  for (int row = 0; row < rows; ++row) {
    if (drift.Push(row, value(row) * std::exp(normal(random))).lasts) return row;
  }
  return std::nullopt;
}

TEST(DriftTest, GrowthAfterAPlateauIsTold) {
  const auto told = FirstDrift(2200, [](int row) {
    return row < 1300 ? 0.6 : 0.6 * std::exp((row - 1300) * std::log(7) / 900.0);
  });
  ASSERT_TRUE(told.has_value());
  EXPECT_GT(*told, 1300);
  EXPECT_LT(*told, 1800);
}

TEST(DriftTest, WhatHasAlwaysGrownDoesNotDrift) {
  EXPECT_FALSE(FirstDrift(4000, [](int row) { return 0.01 * std::exp(row / 500.0); }).has_value());
}

TEST(DriftTest, APlateauIsNotTold) {
  EXPECT_FALSE(FirstDrift(20'000, [](int) { return 1.0; }).has_value());
}

TEST(DriftTest, IsOverWhenHalfOfTheSizeIsGone) {
  Drift drift(kDrifts);
  for (int row = 0; row < 400; ++row) drift.Push(row, 1);
  bool told = false;
  for (int row = 400; row < 500; ++row) told |= drift.Push(row, std::exp((row - 400) * 0.03)).lasts;
  EXPECT_TRUE(told);
  Change change;
  for (int row = 500; row < 2000; ++row) change = drift.Push(row, 1);
  EXPECT_FALSE(change.lasts);
}

}  // namespace
}  // namespace foreshock::detect
