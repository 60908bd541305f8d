#include "daemon/detect/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace foreshock::detect {
namespace {

// The recent memory has about 32 values, so its spread lies within a third of the truth; the larger
// of two memories lies above it on average.
TEST(NoiseTest, FindsTheSpreadOfWhiteNoise) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 2);
  Noise noise;
  for (int i = 0; i < 2000; ++i) noise.Add(normal(random));
  EXPECT_GT(noise.Spread(), 2 * 0.8);
  EXPECT_LT(noise.Spread(), 2 * 1.6);
  EXPECT_GE(noise.Widened(), noise.Spread() * (1 + 6.0 / 2000));
  EXPECT_LT(noise.Widened(), noise.Spread() * 1.1) << "white noise has no runs";
}

TEST(NoiseTest, IsWiderWhereValuesComeInRuns) {
  Noise noise;
  for (int i = 0; i < 4000; ++i) noise.Add(i / 50 % 2 == 0 ? 1 : -1);
  EXPECT_GT(noise.Widened(), noise.Spread() * 1.8);
}

TEST(NoiseTest, AConstantOffsetIsNoNoise) {
  Noise noise;
  for (int i = 0; i < 400; ++i) noise.Add(-3);
  EXPECT_LT(noise.Spread(), 0.03);
}

TEST(NoiseTest, OneOutlierCountsAsSixSpreads) {
  Noise with, without;
  for (int i = 0; i < 100; ++i) {
    with.Add(i % 2 == 0 ? 1 : -1);
    without.Add(i % 2 == 0 ? 1 : -1);
  }
  const double before = without.Spread();
  with.Add(1e9);
  EXPECT_LT(with.Spread(), before * std::sqrt(1 + 36 * 4.0 / 104) + 1e-6);
}

TEST(NoiseTest, AWildBeginningIsForgotten) {
  Noise noise;
  for (int i = 0; i < 20; ++i) noise.Add(i % 2 == 0 ? 100 : -100);
  for (int i = 0; i < 400; ++i) noise.Add(i % 2 == 0 ? 1 : -1);
  EXPECT_LT(noise.Spread(), 3);
}

}  // namespace
}  // namespace foreshock::detect
