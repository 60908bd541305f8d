#include "daemon/rules/baseline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace foreshock::rules {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

Baseline Obvious(const std::vector<double>& values, double floor) {
  Baseline baseline;
  baseline.median = Median(values);
  std::vector<double> distances;
  for (const double x : values) distances.push_back(std::abs(x - baseline.median));
  baseline.spread = std::max(1.4826 * Median(distances), floor * std::abs(baseline.median));
  return baseline;
}

TEST(RobustBaselineTest, AgreesWithTheDefinitionOnSmallLists) {
  // Every list of up to six values out of four, ties included.
  for (int n = 1; n <= 6; ++n) {
    int lists = 1;
    for (int i = 0; i < n; ++i) lists *= 4;
    for (int code = 0; code < lists; ++code) {
      std::vector<double> values;
      for (int i = 0, rest = code; i < n; ++i, rest /= 4) values.push_back(rest % 4 - 1.0);
      std::sort(values.begin(), values.end());
      const Baseline expected = Obvious(values, 1e-3);
      const Baseline actual = RobustBaseline(values, 1e-3);
      ASSERT_DOUBLE_EQ(actual.median, expected.median) << ::testing::PrintToString(values);
      ASSERT_DOUBLE_EQ(actual.spread, expected.spread) << ::testing::PrintToString(values);
    }
  }
}

TEST(SampleWindowTest, IsTheMedianOfTheLastSamplesBehindTheLag) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const struct {
    int samples, lag, min_samples;
  } kCases[] = {{30, 5, 8}, {300, 20, 80}, {20, 1, 20}, {2, 7, 2}};
  for (const auto& test : kCases) {
    const BaselineSpec spec{.kind = BaselineSpec::Kind::kTrailing,
                            .samples = test.samples,
                            .lag = test.lag,
                            .min_samples = test.min_samples};
    SampleWindow window(spec);
    std::vector<double> all;
    for (int i = 0; i < 1500; ++i) {
      const double value = std::round(20 * normal(random)) / 4;  // with ties
      window.Accept(i, value);
      all.push_back(value);
      // With lag 5 the next sample is compared with all but the four newest.
      const int last = static_cast<int>(all.size()) + 1 - test.lag;
      const int first = std::max(0, last - test.samples);
      const std::optional<Baseline> actual = window.Get();
      if (last - first < test.min_samples) {
        ASSERT_FALSE(actual.has_value()) << i;
        continue;
      }
      const Baseline expected =
          Obvious(std::vector<double>(all.begin() + first, all.begin() + last), 1e-3);
      ASSERT_TRUE(actual.has_value()) << i;
      ASSERT_DOUBLE_EQ(actual->median, expected.median) << i;
      ASSERT_DOUBLE_EQ(actual->spread, expected.spread) << i;
    }
  }
}

TEST(SampleWindowTest, AnchorStaysWhereItWasUntilTheRunIsRebased) {
  const BaselineSpec spec{.kind = BaselineSpec::Kind::kAnchored, .samples = 3};
  SampleWindow window(spec);
  window.Accept(1, 1);
  window.Accept(2, 2);
  EXPECT_FALSE(window.Get().has_value());
  window.Accept(3, 3);
  for (int i = 4; i < 100; ++i) window.Accept(i, 50);
  EXPECT_EQ(window.Get()->median, 2);
  window.DropFrom(4);  // resumed behind the anchor
  EXPECT_EQ(window.Get()->median, 2);
  window.DropFrom(3);  // resumed inside it
  EXPECT_FALSE(window.Get().has_value());
}

TEST(SampleWindowTest, AnAnchorMayBeUsedBeforeItIsComplete) {
  const BaselineSpec spec{.kind = BaselineSpec::Kind::kAnchored, .samples = 5, .min_samples = 3};
  SampleWindow window(spec);
  window.Accept(1, 1);
  window.Accept(2, 9);
  EXPECT_FALSE(window.Get().has_value());
  window.Accept(3, 2);
  EXPECT_EQ(window.Get()->median, 2);
  window.Accept(4, 3);
  window.Accept(5, 4);
  EXPECT_EQ(window.Get()->median, 3);
  for (int i = 6; i < 100; ++i) window.Accept(i, 50);
  EXPECT_EQ(window.Get()->median, 3);
  window.DropFrom(5);
  EXPECT_EQ(window.Get()->median, 2.5);
  window.Accept(5, 0);
  window.Accept(6, 50);
  EXPECT_EQ(window.Get()->median, 2);
}

TEST(SampleWindowTest, AResumeForgetsTheStepsThatRunAgain) {
  const BaselineSpec spec{
      .kind = BaselineSpec::Kind::kTrailing, .samples = 4, .lag = 1, .min_samples = 2};
  SampleWindow window(spec);
  for (int i = 0; i < 8; ++i) window.Accept(i, i);
  EXPECT_EQ(window.Get()->median, 5.5);
  window.DropFrom(6);
  EXPECT_EQ(window.Get()->median, 3.5);
  window.Accept(6, 100);
  EXPECT_EQ(window.Get()->median, 4.5);
  window.DropFrom(0);
  EXPECT_FALSE(window.Get().has_value());
}

TEST(SampleWindowTest, ConstantSeriesHaveTheFloorAsSpread) {
  const BaselineSpec spec{
      .kind = BaselineSpec::Kind::kTrailing, .samples = 5, .lag = 1, .min_samples = 2};
  SampleWindow window(spec);
  for (int i = 0; i < 5; ++i) window.Accept(i, 2.0);
  EXPECT_DOUBLE_EQ(window.Get()->spread, 0.002);
}

}  // namespace
}  // namespace foreshock::rules
