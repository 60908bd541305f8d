#include "daemon/rules/loss_break.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace foreshock::rules {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// `count` samples of `loss`, after those of `before`, ten steps apart.
std::vector<LossSample> Then(std::vector<LossSample> before, size_t count, double loss) {
  for (size_t i = 0; i < count; ++i) {
    before.push_back({static_cast<int64_t>(before.size()) * 10, loss});
  }
  return before;
}

TEST(LossBreakTest, NoSamplesAndSteadyLossNeverBreak) {
  EXPECT_EQ(LossBreakStep({}), std::nullopt);
  EXPECT_EQ(LossBreakStep(Then({}, 1000, 2.0)), std::nullopt);
}

TEST(LossBreakTest, RiseByLessThanAFifthIsNoBreak) {
  EXPECT_EQ(LossBreakStep(Then(Then({}, 500, 2.0), 500, 2.399)), std::nullopt);
}

// From a plateau of 1 to 2 the fast average is 2 - 0.96^n after n samples and the best slow average
// stays 1, so the limit 1.2 is passed at the first n with 0.96^n < 0.8: n = 6.
TEST(LossBreakTest, StepUpBreaksWhenTheFastAveragePassesTheLimit) {
  EXPECT_EQ(LossBreakStep(Then(Then({}, 300, 1.0), 300, 2.0)), (300 + 5) * 10);
}

TEST(LossBreakTest, SpikeThatHealsIsNoBreak) {
  EXPECT_EQ(LossBreakStep(Then(Then(Then({}, 300, 1.0), 20, 3.0), 400, 1.0)), std::nullopt);
}

TEST(LossBreakTest, BreakAfterAHealedSpikeIsTheSecondOne) {
  const auto losses = Then(Then(Then(Then({}, 300, 1.0), 20, 3.0), 400, 1.0), 100, 2.0);
  const auto step = LossBreakStep(losses);
  ASSERT_TRUE(step.has_value());
  EXPECT_GE(*step, 7200);
  EXPECT_LT(*step, 7300);
}

TEST(LossBreakTest, FirstNonFiniteLossWhenMostThatFollowsIsNonFinite) {
  EXPECT_EQ(LossBreakStep(Then(Then({}, 74, 2.0), 6, kNan)), 740);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(LossBreakStep(Then(Then({}, 74, 2.0), 6, infinity)), 740);
}

TEST(LossBreakTest, SingleNonFiniteLossAmongFiniteOnesIsNoBreak) {
  EXPECT_EQ(LossBreakStep(Then(Then(Then({}, 50, 2.0), 1, kNan), 50, 2.0)), std::nullopt);
  // Half is not most.
  EXPECT_EQ(LossBreakStep(Then(Then(Then({}, 50, 2.0), 1, kNan), 1, 2.0)), std::nullopt);
}

TEST(LossBreakTest, EarlierOfRiseAndNonFiniteWins) {
  EXPECT_EQ(LossBreakStep(Then(Then(Then({}, 300, 1.0), 100, 2.0), 200, kNan)), 3050);
}

TEST(LossBreakTest, LossAtOrBelowZeroIsJudgedByNonFiniteOnly) {
  EXPECT_EQ(LossBreakStep(Then(Then({}, 100, -1.0), 100, 5.0)), std::nullopt);
  EXPECT_EQ(LossBreakStep(Then(Then({}, 100, -1.0), 100, kNan)), 1000);
}

}  // namespace
}  // namespace foreshock::rules
