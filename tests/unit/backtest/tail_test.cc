// Rates of rare excursions from what was seen.
#include "daemon/backtest/tail.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace foreshock::backtest {
namespace {

ExcursionSeries Of(const std::vector<float>& values) {
  ExcursionSeries history;
  for (size_t i = 0; i < values.size(); ++i) {
    history.push_back({static_cast<int64_t>(10 * i), values[i]});
  }
  return history;
}

TEST(ExcursionsTest, EndBelowTheLevelAndWithTheHistory) {
  const std::vector<ExcursionSeries> one = {Of({0, 2, 0, 2, 0, 0, 2, 2})};
  EXPECT_EQ(CountExcursions(one, 1), 3u);
  EXPECT_EQ(CountExcursions(one, 2), 0u) << "at the level is not above it";
  const std::vector<ExcursionSeries> two = {Of({0, 2}), Of({2, 0})};
  EXPECT_EQ(CountExcursions(two, 1), 2u) << "runs do not join";
}

TEST(ExcursionsTest, PeaksAreTheLargestValueOfEach) {
  const Excursions found = FindExcursions(std::vector<ExcursionSeries>{Of({0, 3, 5, 0, 0, 4, 0})});
  EXPECT_EQ(found.steps, 60);
  EXPECT_EQ(found.threshold, 3);
  EXPECT_EQ(found.peaks, (std::vector<double>{5, 4}));
}

TEST(ExcursionsTest, WhatCannotFireYetIsNoValue) {
  const float never = -std::numeric_limits<float>::infinity();
  const Excursions found = FindExcursions(std::vector<ExcursionSeries>{Of({never, never, never})});
  EXPECT_TRUE(found.peaks.empty());
  EXPECT_EQ(found.steps, 20);
  EXPECT_FALSE(TailFit(found, 0.95).usable());
}

// chi2(0.95, 2 n + 2) / 2, from tables.
TEST(PoissonTest, UpperBoundAgreesWithTables) {
  EXPECT_NEAR(PoissonUpper(0, 0.95), 2.9957, 1e-4) << "the rule of three";
  EXPECT_NEAR(PoissonUpper(1, 0.95), 4.7439, 1e-4);
  EXPECT_NEAR(PoissonUpper(10, 0.95), 16.9622, 1e-4);
  EXPECT_NEAR(PoissonUpper(2000, 0.95), 2075.3, 0.5);
}

Excursions Exponential(size_t n, double scale, double steps) {
  Excursions seen;
  seen.threshold = 1;
  seen.steps = steps;
  // The middle of each of n equally likely parts.
  for (size_t i = 0; i < n; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    seen.peaks.push_back(1 - scale * std::log(share));
  }
  return seen;
}

TEST(TailFitTest, FindsTheExponentialThatMadeThePeaks) {
  const TailFit fit(Exponential(400, 0.5, 40'000), 0.95);
  ASSERT_TRUE(fit.usable());
  EXPECT_NEAR(fit.Rate(1), 0.01, 1e-12);
  // One e-fold per 0.5; the equally spread peaks leave an error of a few percent of the scale.
  EXPECT_NEAR(std::log(fit.Rate(1) / fit.Rate(3)), 4, 0.25);
  EXPECT_GT(fit.RateBound(3), fit.Rate(3));
  EXPECT_NEAR(fit.RateBound(fit.LimitBound(1e-6)), 1e-6, 2e-7) << "bounds are inverse";
  EXPECT_EQ(fit.LimitBound(1), 1) << "never under the threshold";
}

TEST(TailFitTest, MoreHistoryMakesTheBoundTighter) {
  const TailFit little(Exponential(20, 0.5, 2'000), 0.95);
  const TailFit much(Exponential(2000, 0.5, 200'000), 0.95);
  EXPECT_GT(little.LimitBound(1e-6), much.LimitBound(1e-6));
}

TEST(TailFitTest, TooFewPeaksSayNothing) {
  EXPECT_FALSE(TailFit(Exponential(9, 0.5, 900), 0.95).usable());
  EXPECT_TRUE(TailFit(Exponential(10, 0.5, 1000), 0.95).usable());
}

TEST(TailFitTest, EqualPeaksStayFinite) {
  Excursions seen;
  seen.threshold = 2;
  seen.steps = 1000;
  seen.peaks.assign(50, 3);
  const TailFit fit(seen, 0.95);
  EXPECT_TRUE(std::isfinite(fit.LimitBound(1e-9)));
  EXPECT_LE(fit.Rate(100), 1e-9);
}

// The share of histories in which the true rate at the limit is within the budget. The bound is of
// 95 % for tails that are exponential; lighter ones are kept nearly always, heavier ones less often
// (docs/calibration.md). With 60 histories, a bound that held in 95 % of cases would be seen to
// hold in fewer than 51 once in 5 000 times.
size_t Held(const std::function<double(std::mt19937_64*)>& draw,
            const std::function<double(double)>& tail) {
  constexpr int kSteps = 3000;
  constexpr double kRate = 1e-5;  // 33 times rarer than one in the history
  size_t held = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    ExcursionSeries history;
    for (int i = 0; i < kSteps; ++i) history.push_back({i, static_cast<float>(draw(&random))});
    const TailFit fit(FindExcursions(std::vector<ExcursionSeries>{history}), 0.95);
    held += tail(fit.LimitBound(kRate)) <= kRate ? 1 : 0;
  }
  return held;
}

TEST(TailFitTest, BoundHoldsForExponentialAndGaussianTails) {
  EXPECT_GE(Held([](auto* r) { return std::exponential_distribution<double>()(*r); },
                 [](double u) { return std::exp(-u); }),
            51u);
  EXPECT_GE(Held([](auto* r) { return std::normal_distribution<double>()(*r); },
                 [](double u) { return 0.5 * std::erfc(u / std::sqrt(2)); }),
            51u);
}

}  // namespace
}  // namespace foreshock::backtest
