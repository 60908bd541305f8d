#include "daemon/detect/best_so_far.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

namespace foreshock::detect {
namespace {

constexpr Limits kLoss{.side = Side::kUp, .size = 0.05, .noises = 6};
constexpr Limits kReward{.side = Side::kDown, .size = 0.25, .noises = 6};

template <typename Value>
std::optional<int64_t> FirstTold(BestSoFar* best, int rows, double noise, const Value& value) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0, noise);
  for (int row = 0; row < rows; ++row) {
    if (best->Push(row, value(row) + normal(random)).lasts) return row;
  }
  return std::nullopt;
}

TEST(BestSoFarTest, ASlowRiseIsToldWhenItMattersInSize) {
  BestSoFar best(kLoss);
  const auto told = FirstTold(&best, 6000, 0.02, [](int row) {
    return row < 1000 ? 0.6 : 0.6 * (1 + 0.2 * (row - 1000) / 3000.0);
  });
  ASSERT_TRUE(told.has_value());
  EXPECT_GT(*told, 1000);
  EXPECT_LT(*told, 2500) << "a rise of 10 percent";
}

TEST(BestSoFarTest, NoiseAloneIsNotTold) {
  BestSoFar best(kLoss);
  EXPECT_FALSE(FirstTold(&best, 50'000, 0.1, [](int) { return 0.5; }).has_value());
}

TEST(BestSoFarTest, ARewardThatFallsToHalfIsTold) {
  BestSoFar best(kReward);
  const auto told =
      FirstTold(&best, 400, 0.08, [](int row) { return row < 150 ? 0.3 + row * 0.0035 : 0.36; });
  ASSERT_TRUE(told.has_value());
  EXPECT_GT(*told, 150);
  EXPECT_LT(*told, 190);
}

TEST(BestSoFarTest, IsOverWhenItIsBack) {
  BestSoFar best(kLoss);
  for (int row = 0; row < 500; ++row) best.Push(row, 1 + 0.01 * (row % 3));
  Change change;
  for (int row = 500; row < 600; ++row) change = best.Push(row, 1.5);
  EXPECT_TRUE(change.lasts);
  EXPECT_NEAR(change.before, 1.01, 0.01);
  for (int row = 600; row < 1200; ++row) change = best.Push(row, 1 + 0.01 * (row % 3));
  EXPECT_FALSE(change.lasts);
}

TEST(BestSoFarTest, AResumeForgetsTheBestOfStepsThatRunAgain) {
  BestSoFar best(kLoss);
  for (int row = 0; row < 1000; ++row) best.Push(row, 3 - row * 0.002 + 0.001 * (row % 2));
  best.Resume(500);
  for (int row = 500; row < 600; ++row) {
    ASSERT_FALSE(best.Push(row, 3 - row * 0.002 + 0.001 * (row % 2)).lasts) << row;
  }
}

}  // namespace
}  // namespace foreshock::detect
