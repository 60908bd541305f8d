// Detectors that look at the course of a series. The baseline is fixed at 10 with a spread of 1
// where nothing else is said, so that a value of 12 is two spreads up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/rules/steps.h"

namespace foreshock {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kTen[] = "baseline: {kind: fixed, value: 10, spread_floor: 0.1}";

// A run of one rule on train.x.
class OneSeries : public TestRun {
 public:
  explicit OneSeries(std::vector<std::string> keys)
      : TestRun(OneRule(WithIndicator(std::move(keys)))) {}

  // The next `count` samples, `every` steps apart.
  OneSeries& Push(double value, int count = 1, int64_t every = 1) {
    for (int i = 0; i < count; ++i) Step(step += every, {MakeSample("train.x", value)});
    return *this;
  }
  OneSeries& Resume(int64_t at) {
    evaluator->BeginAttempt({.number = ++attempt, .resume_step = at});
    step = at - 1;
    return *this;
  }
  // A declared change of the data: another regime.
  OneSeries& Rebase(double value) {
    ClosedStep closed = MakeStep(++step, {MakeSample("train.x", value)});
    closed.events.emplace_back().set_kind(v1::EVENT_KIND_DATA_CHANGE);
    Step(closed);
    return *this;
  }

  int64_t step = 0;
  uint32_t attempt = 1;

 private:
  static std::vector<std::string> WithIndicator(std::vector<std::string> keys) {
    keys.emplace_back("indicator: train.x");
    return keys;
  }
};

TEST(CusumTest, SumsWhatIsTooSmallToSeeInOneSample) {
  OneSeries run({"cusum: {above: 8, slack: 0.5}", kTen});
  run.Push(10, 20).Push(11.5, 8);  // 1.5 spreads, of which one counts: 8 is not above 8
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(11.5);
  EXPECT_THAT(run.seen, ElementsAre("29 r firing"));
  EXPECT_EQ(run.rows[0].alert().value(), 11.5);
  EXPECT_EQ(run.rows[0].alert().baseline(), 10);
  EXPECT_EQ(run.rows[0].alert().last_healthy_step(), 20);  // where the sum began to rise
}

TEST(CusumTest, WhatTheSlackAllowsNeverFires) {
  OneSeries run({"cusum: {outside: 8, slack: 0.5}", kTen});
  run.Push(10.5, 1000).Push(9.5, 1000);
  EXPECT_THAT(run.seen, IsEmpty());
}

TEST(CusumTest, EachSideHasItsSum) {
  OneSeries up({"cusum: {above: 8}", kTen});
  up.Push(5, 100);
  EXPECT_THAT(up.seen, IsEmpty());
  OneSeries down({"cusum: {below: -8}", kTen});
  down.Push(15, 100).Push(8, 6);
  EXPECT_THAT(down.seen, ElementsAre("106 r firing"));
  OneSeries both({"cusum: {outside: 8}", kTen});
  both.Push(12, 6).Push(10, 40).Push(8, 10);
  EXPECT_THAT(both.seen, ElementsAre("6 r firing", "8 r resolved", "52 r firing"));
}

TEST(CusumTest, OneOutlierDoesNotFireAlone) {
  OneSeries run({"cusum: {above: 8}", kTen});
  run.Push(10, 5).Push(1e9).Push(10, 100).Push(1e30, 2);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(1e30);
  EXPECT_THAT(run.seen, ElementsAre("109 r firing"));
}

TEST(CusumTest, ComesDownAgainHoweverLongItFired) {
  OneSeries run({"cusum: {above: 8, slack: 0.5, clear: 4}", kTen});
  run.Push(20, 1000);
  ASSERT_THAT(run.seen, ElementsAre("3 r firing"));
  run.Push(10, 23);  // from twice the limit, 0.5 a sample
  EXPECT_EQ(run.seen.size(), 1u);
  run.Push(10);
  EXPECT_EQ(run.seen.back(), "1024 r resolved");
  run.Push(11.5, 8);  // from nothing again
  EXPECT_EQ(run.seen.size(), 2u);
}

TEST(CusumTest, AResumeOrAnotherRegimeStartsFromNothing) {
  OneSeries resumed({"cusum: {above: 8}", kTen});
  resumed.Push(11.5, 8).Resume(9).Push(11.5, 8);
  EXPECT_THAT(resumed.seen, IsEmpty());
  OneSeries rebased({"cusum: {above: 8}", kTen});
  rebased.Push(11.5, 8).Rebase(10).Push(11.5, 8);
  EXPECT_THAT(rebased.seen, IsEmpty());
}

TEST(CusumTest, WithoutABaselineNothingIsSummed) {
  OneSeries run({"cusum: {above: 8}", "baseline: {samples: 10, lag: 1, min_samples: 10}"});
  for (int i = 0; i < 10; ++i) run.Push(10 + 5 * i);
  EXPECT_THAT(run.seen, IsEmpty());
}

TEST(LevelShiftTest, IsTheMedianOfTheNewestSamples) {
  OneSeries run({"level_shift: {above: 3, samples: 5, clear: 1}", kTen});
  run.Push(10, 10).Push(14, 2);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(14);
  ASSERT_THAT(run.seen, ElementsAre("13 r firing"));
  EXPECT_EQ(run.rows[0].alert().value(), 14);
  EXPECT_EQ(run.rows[0].alert().baseline(), 10);
  EXPECT_EQ(run.rows[0].alert().last_healthy_step(), 8);  // before the oldest of the five
  run.Push(11, 2).Push(11);
  EXPECT_EQ(run.seen.back(), "16 r resolved");
}

TEST(LevelShiftTest, OutliersAndWhatLiesAtTheLimitDoNotFire) {
  OneSeries run({"level_shift: {outside: 3, samples: 5}", kTen});
  run.Push(10, 5);
  for (int i = 0; i < 100; ++i) run.Push(1000, 2).Push(10, 3);
  run.Push(13, 100).Push(7, 100);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(6.9, 3);
  EXPECT_THAT(run.seen, ElementsAre("708 r firing"));
}

TEST(LevelShiftTest, TheNewestSamplesAreNoPartOfTheirBaseline) {
  // Without the lag the baseline would follow within six samples.
  OneSeries run({"level_shift: {below: -3, samples: 10}", "baseline: {samples: 10}"});
  for (int i = 0; i < 100; ++i) run.Push(10 + 0.1 * (i % 3));
  run.Push(9, 4);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(9);
  ASSERT_THAT(run.seen, ElementsAre("105 r firing"));
  EXPECT_NEAR(run.rows[0].alert().baseline(), 10.1, 0.01);
}

TEST(LevelShiftTest, ANewLevelIsAcceptedInTheEnd) {
  OneSeries run(
      {"level_shift: {above: 3, samples: 5}", "baseline: {samples: 10}", "release_samples: 50"});
  for (int i = 0; i < 30; ++i) run.Push(10 + 0.1 * (i % 3));
  for (int i = 0; i < 200; ++i) run.Push(20 + 0.1 * (i % 3));
  EXPECT_THAT(run.seen, ElementsAre("33 r firing", "83 r resolved"));
}

TEST(LevelShiftTest, OfTheLogarithmOfHeavyTails) {
  OneSeries run({"level_shift: {above: 3, samples: 3, log: true}", "baseline: {samples: 10}"});
  for (int i = 0; i < 30; ++i) run.Push(1 + 0.5 * (i % 3));
  run.Push(3, 10);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(60, 2);
  ASSERT_THAT(run.seen, ElementsAre("42 r firing"));
  EXPECT_NEAR(run.rows[0].alert().value(), 60, 1e-9);
}

}  // namespace
}  // namespace foreshock
