#include "daemon/backtest/curve_stats.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::backtest {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Optional;

Curve CurveOf(const std::vector<double>& values, int64_t every = 1) {
  Curve curve;
  for (size_t i = 0; i < values.size(); ++i) {
    curve.push_back({every * static_cast<int64_t>(i), values[i]});
  }
  return curve;
}

std::vector<double> ValuesOf(const Curve& curve) {
  std::vector<double> values;
  for (const rules::TrendPoint& point : curve) values.push_back(point.value);
  return values;
}

TEST(CurveStats, ARunningMedianTakesASpikeAwayAndKeepsAStep) {
  EXPECT_THAT(ValuesOf(RunningMedian(CurveOf({1, 1, 9, 1, 1, 4, 4, 4, 4}), 5)),
              ElementsAre(1, 1, 1, 1, 4, 4, 4, 4, 4));
  EXPECT_TRUE(RunningMedian({}, 5).empty());
  EXPECT_THAT(ValuesOf(RunningMedian(CurveOf({3}), 5)), ElementsAre(3));
}

TEST(CurveStats, TheDeviationOfNoiseIgnoresOutliers) {
  EXPECT_DOUBLE_EQ(RobustDeviation({1, -1, 1, -1, 1000}), 1.4826);
  EXPECT_EQ(RobustDeviation({}), 0);
}

TEST(CurveStats, TheSlopeIsPerStepAlsoOfMorePointsThanItLooksAt) {
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i) values.push_back(0.5 * i);
  EXPECT_DOUBLE_EQ(SlopeOf(CurveOf(values, 10)), 0.05);
  EXPECT_DOUBLE_EQ(SlopeOf(CurveOf({0, 1, 100, 3, 4})), 1);
}

TEST(CurveStats, SpearmanAsksForTheOrderOnly) {
  EXPECT_THAT(Spearman({1, 2, 3, 4}, {1, 10, 100, 1000}), Optional(DoubleNear(1, 1e-15)));
  EXPECT_THAT(Spearman({1, 2, 3, 4}, {4, 3, 2, 1}), Optional(DoubleNear(-1, 1e-15)));
  // Ranks 1 2.5 2.5 4 against 1 2 3 4: 4.5 / sqrt(4.5 * 5).
  EXPECT_THAT(Spearman({1, 2, 2, 4}, {1, 2, 3, 4}), Optional(DoubleNear(std::sqrt(0.9), 1e-15)));
  EXPECT_FALSE(Spearman({1, 1, 1}, {1, 2, 3}).has_value());
  EXPECT_FALSE(Spearman({}, {}).has_value());
}

TEST(CurveStats, KendallCountsPairsInTheSameOrder) {
  EXPECT_THAT(KendallTau({1, 2, 3, 4}, {1, 2, 3, 4}), Optional(1.0));
  // Of six pairs five in order, one not.
  EXPECT_THAT(KendallTau({1, 2, 3, 4}, {1, 2, 4, 3}), Optional(DoubleNear(4.0 / 6, 1e-15)));
  // One tie in the first: 5 / sqrt(5 * 6).
  EXPECT_THAT(KendallTau({1, 1, 3, 4}, {1, 2, 3, 4}),
              Optional(DoubleNear(5 / std::sqrt(30.0), 1e-15)));
  EXPECT_FALSE(KendallTau({1, 1}, {1, 2}).has_value());
}

}  // namespace
}  // namespace foreshock::backtest
