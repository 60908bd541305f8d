// Detectors that look at the course of a series. The baseline is fixed at 10 with a spread of 1
// where nothing else is said, so that a value of 12 is two spreads up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
    model::ClosedStep closed = MakeStep(++step, {MakeSample("train.x", value)});
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

TEST(LevelShiftTest, OfTheLogarithmOfHeavyTails) {
  OneSeries run({"level_shift: {above: 3, samples: 3, log: true}", "baseline: {samples: 10}"});
  for (int i = 0; i < 30; ++i) run.Push(1 + 0.5 * (i % 3));
  run.Push(3, 10);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(60, 2);
  ASSERT_THAT(run.seen, ElementsAre("42 r firing"));
  EXPECT_NEAR(run.rows[0].alert().value(), 60, 1e-9);
}

TEST(SlopeTest, IsPerSoManyStepsWhateverTheSamplingInterval) {
  OneSeries run({"slope: {above: 2, per: 1000 steps, samples: 20}"});
  run.Push(5, 30, 10);
  for (int i = 0; i < 30; ++i) run.Push(5 + 0.01 * i, 1, 10);  // 1 per 1000 steps
  EXPECT_THAT(run.seen, IsEmpty());
  for (int i = 0; i < 30; ++i) run.Push(6 + 0.03 * i, 1, 10);  // 3 per 1000 steps
  ASSERT_THAT(run.seen, ElementsAre(HasSubstr("firing")));
  EXPECT_GT(run.rows[0].alert().value(), 2);
  EXPECT_FALSE(run.rows[0].alert().has_baseline());
  // Before the oldest of the twenty.
  EXPECT_EQ(run.rows[0].alert().last_healthy_step(), run.rows[0].alert().firing_step() - 200);
}

TEST(SlopeTest, ALineOfExactlyTheLimitIsNotAboveIt) {
  OneSeries run({"slope: {above: 8, per: 4 steps, samples: 10}"});
  for (int i = 0; i < 100; ++i) run.Push(2 * i);  // 8 per 4 steps, exact in binary
  EXPECT_THAT(run.seen, IsEmpty());
  for (int i = 0; i < 10; ++i) run.Push(200 + 3 * i);
  EXPECT_THAT(run.seen, ElementsAre(HasSubstr("firing")));
}

TEST(SlopeTest, NoiseIsNoTrend) {
  // Half of all pairs are far steeper than the limit.
  OneSeries run({"slope: {above: 1, per: 1 step, samples: 20, min_z: 4}"});
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) run.Push(static_cast<double>(random() % 1000));
  EXPECT_THAT(run.seen, IsEmpty());
}

TEST(SlopeTest, OutliersAreNoTrend) {
  OneSeries run({"slope: {above: 1, per: 1000 steps, samples: 20}"});
  for (int i = 0; i < 50; ++i) run.Push(5 + 0.001 * (i % 2), 3).Push(1e6);
  EXPECT_THAT(run.seen, IsEmpty());
}

TEST(SlopeTest, EndsWhenTheTrendDoes) {
  OneSeries run({"slope: {below: -1, clear: -0.5, per: 1 step, samples: 10}"});
  run.Push(100, 10);
  for (int i = 0; i < 20; ++i) run.Push(100 - 2 * i);
  ASSERT_THAT(run.seen, ElementsAre(HasSubstr("firing")));
  run.Push(62, 12);
  EXPECT_THAT(run.seen, ElementsAre(HasSubstr("firing"), HasSubstr("resolved")));
}

TEST(SlopeTest, WillCrossLooksAhead) {
  const std::vector<std::string> keys = {
      "slope: {will_cross: {above: 100, clear: 90}, within: 500 steps, samples: 30}"};
  OneSeries rising(keys);
  for (int i = 0; i < 100; ++i) rising.Push(10 + 0.1 * i);  // 19.9 at 100, 70 at 600
  EXPECT_THAT(rising.seen, IsEmpty());
  for (int i = 0; i < 350; ++i) rising.Push(20 + 0.1 * i);  // 50 at 400, 100 at 900
  ASSERT_THAT(rising.seen, ElementsAre(HasSubstr("firing")));
  EXPECT_NEAR(static_cast<double>(rising.rows[0].alert().firing_step()), 401.5, 0.5);
  EXPECT_NEAR(rising.rows[0].alert().value(), 100.05, 0.1);  // 500 steps ahead
  rising.Push(54.9, 40);                                     // it stays there
  EXPECT_EQ(rising.seen.size(), 2u);

  OneSeries crossed(keys);  // there already, without a trend
  crossed.Push(101, 10);
  EXPECT_THAT(crossed.seen, ElementsAre("10 r firing"));

  OneSeries falling(keys);  // away from the limit
  for (int i = 0; i < 200; ++i) falling.Push(99 - 0.1 * i);
  EXPECT_THAT(falling.seen, IsEmpty());
}

TEST(SlopeTest, AResumeKeepsTheSamplesBeforeIt) {
  OneSeries run({"slope: {above: 0.5, per: 1 step, samples: 10}"});
  for (int i = 0; i < 8; ++i) run.Push(i);
  run.Push(-100, 1);  // step 9 runs again
  run.Resume(9);
  run.Push(8).Push(9);
  EXPECT_THAT(run.seen, ElementsAre("10 r firing"));
}

TEST(SlopeTest, TooFewSamplesHaveNone) {
  OneSeries run({"slope: {above: 0.5, per: 1 step, samples: 10, min_samples: 10}"});
  for (int i = 0; i < 9; ++i) run.Push(i);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Rebase(9);  // and another regime begins
  for (int i = 10; i < 18; ++i) run.Push(i);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(18);
  EXPECT_THAT(run.seen, ElementsAre("19 r firing"));
}

TEST(SpikeBudgetTest, FiresWhenMoreThanTheShareAreSpikes) {
  OneSeries run({"spike_budget: {spike: {above: 6}, share: 3%, of: 100 samples, clear: 1%}", kTen});
  for (int i = 0; i < 40; ++i) run.Push(10, 33).Push(20);  // three in a hundred
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(10).Push(20);
  ASSERT_THAT(run.seen, ElementsAre("1362 r firing"));
  EXPECT_DOUBLE_EQ(run.rows[0].alert().value(), 0.04);
  EXPECT_FALSE(run.rows[0].alert().has_baseline());
  EXPECT_EQ(run.rows[0].alert().last_healthy_step(), 1291);  // before the first of the four
  run.Push(10, 97);
  EXPECT_EQ(run.seen.size(), 1u);  // two are left
  run.Push(10);
  EXPECT_EQ(run.seen.back(), "1460 r resolved");
}

TEST(SpikeBudgetTest, AFewSamplesAreNoShare) {
  OneSeries run({"spike_budget: {spike: {outside: 6}, share: 10%, of: 20 samples}", kTen});
  run.Push(20).Push(0);  // two of two, but two of twenty at most
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(20);
  EXPECT_THAT(run.seen, ElementsAre("3 r firing"));
}

TEST(SpikeBudgetTest, ValuesAtTheLimitOnTheOtherSideAreNone) {
  OneSeries run({"spike_budget: {spike: {below: -6}, share: 10%, of: 20 samples}", kTen});
  run.Push(20, 100).Push(4, 100);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(3.9, 3);
  EXPECT_THAT(run.seen, ElementsAre("203 r firing"));
}

TEST(SpikeBudgetTest, SpikesDoNotEnterTheBaseline) {
  // A quarter of all samples: in the baseline they would widen the spread until none is a spike.
  OneSeries run({"spike_budget: {spike: {above: 6}, share: 30%, of: 20 samples}",
                 "baseline: {samples: 30, lag: 1, min_samples: 10}"});
  for (int i = 0; i < 30; ++i) run.Push(10 + 0.1 * (i % 3));
  for (int i = 0; i < 100; ++i) run.Push(i % 4 == 0 ? 100 : 10 + 0.1 * (i % 3));
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(11, 4);  // six spreads away
  EXPECT_THAT(run.seen, ElementsAre(HasSubstr("firing")));
}

constexpr char kContinuity[] =
    "continuity: {outside: 0.05, within: 10 steps, min_z: 3, clear: 0.02}";

TEST(ContinuityTest, ComparesTheSameStepsOfTwoAttempts) {
  OneSeries run({kContinuity, kTen});  // 0.05 of 100 is five spreads
  for (int i = 1; i <= 40; ++i) run.Push(100 + i);
  run.Resume(21);
  for (int i = 21; i <= 25; ++i) run.Push(100 + i);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(133);  // 126 before: more than 5 %
  ASSERT_THAT(run.seen, ElementsAre("26 r firing"));
  EXPECT_EQ(run.rows[0].alert().value(), 133);
  EXPECT_EQ(run.rows[0].alert().baseline(), 126);
  EXPECT_EQ(run.rows[0].alert().last_healthy_step(), 25);
  run.Push(130);  // 127 before: beyond `clear`
  EXPECT_EQ(run.seen.size(), 1u);
  run.Push(129);
  EXPECT_EQ(run.seen.back(), "28 r resolved");
}

TEST(ContinuityTest, AtTheLimitOrWithinTheNoiseItIsSilent) {
  OneSeries limit({kContinuity, kTen});
  limit.Push(100, 40).Resume(21).Push(105, 5).Push(95, 5);
  EXPECT_THAT(limit.seen, IsEmpty());
  OneSeries noise({kContinuity, "baseline: {kind: fixed, value: 100, spread_floor: 0.03}"});
  noise.Push(100, 40).Resume(21).Push(108.9, 10);
  EXPECT_THAT(noise.seen, IsEmpty());
  noise.Resume(21).Push(100, 1).Resume(21).Push(109.5);
  EXPECT_THAT(noise.seen, ElementsAre("21 r firing"));
  OneSeries no_baseline({kContinuity});  // eight samples behind the lag are needed
  no_baseline.Push(100, 11).Resume(1).Push(200, 10);
  EXPECT_THAT(no_baseline.seen, IsEmpty());
}

TEST(ContinuityTest, OnlyTheFirstStepsOfAnAttempt) {
  OneSeries run({kContinuity, kTen});
  run.Push(100, 60).Resume(21).Push(100, 11).Push(200, 20);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Resume(21).Push(200, 20);  // against 100; from step 32 on nothing is compared
  EXPECT_THAT(run.seen, ElementsAre("21 r firing", "32 r resolved"));
  OneSeries samples({"continuity: {outside: 0.05, within: 3 samples}", kTen});
  samples.Push(100, 60, 10).Resume(301);
  samples.step = 300;
  samples.Push(100, 3, 10).Push(200, 20, 10);
  EXPECT_THAT(samples.seen, IsEmpty());
}

TEST(ContinuityTest, WithoutAnOlderValueThereIsNothingToJudge) {
  OneSeries first({kContinuity, kTen});
  first.Push(100, 10).Push(200, 10);
  EXPECT_THAT(first.seen, IsEmpty());
  OneSeries no_overlap({kContinuity, kTen});
  no_overlap.Push(100, 10).Resume(11).Push(200, 10);
  EXPECT_THAT(no_overlap.seen, IsEmpty());
  OneSeries past_the_end({kContinuity, kTen});
  past_the_end.Push(100, 10).Resume(9).Push(200, 2);
  EXPECT_THAT(past_the_end.seen, ElementsAre("9 r firing"));
  past_the_end.Push(200);  // the older attempt ended at step 10
  EXPECT_EQ(past_the_end.seen.back(), "11 r resolved");
}

TEST(ContinuityTest, RemembersSoManySamples) {
  OneSeries run({"continuity: {outside: 0.05, samples: 10, within: 100 steps}", kTen});
  run.Push(100, 40).Resume(21).Push(200, 10);  // 21..30 are forgotten
  EXPECT_THAT(run.seen, IsEmpty());
  run.Push(200);
  EXPECT_THAT(run.seen, ElementsAre("31 r firing"));
}

TEST(ContinuityTest, SamplesAtOtherStepsAreComparedWithinAnInterval) {
  OneSeries run({kContinuity, kTen});
  run.Push(100, 5, 10).Resume(21);  // 10, 20, ... 50
  run.step = 25;
  run.Push(200);  // nothing at 21..25
  EXPECT_THAT(run.seen, IsEmpty());
  run.step = 30;
  run.Push(200);  // 30 is one step old
  EXPECT_THAT(run.seen, ElementsAre("31 r firing"));
}

TEST(ContinuityTest, ADeclaredChangeEndsTheComparison) {
  OneSeries run({kContinuity, kTen});
  run.Push(100, 40).Resume(21).Rebase(200).Push(200, 9);
  EXPECT_THAT(run.seen, IsEmpty());
}

TEST(ContinuityTest, AnOlderAttemptStandsWhereTheNewestDidNotGet) {
  OneSeries run({kContinuity, kTen});
  run.Push(100, 40).Resume(21).Push(102, 3).Resume(21);
  run.Push(102, 3).Push(108);  // 102 three times, then 100
  EXPECT_THAT(run.seen, ElementsAre("24 r firing"));
}

// One rule per detector on train.x, with baselines as they are by default.
constexpr char kAll[] = R"(
groups:
  - name: g
    defaults: {labels: {severity: info}, warm_up: judge}
    rules:
      - {alert: cusum, indicator: train.x, cusum: {above: 8}}
      - {alert: shift, indicator: train.x, level_shift: {above: 5, samples: 10}}
      - {alert: slope, indicator: train.x, slope: {above: 100, per: 1000 steps, min_z: 4}}
      - {alert: spikes, indicator: train.x,
         spike_budget: {spike: {above: 6}, share: 5%, of: 40 samples}}
      - {alert: continuity, indicator: train.x, continuity: {outside: 0.05}}
)";

double Healthy(int64_t step) { return 10 + 0.1 * static_cast<double>(step * 7 % 5); }

// Names in the order in which they fire.
std::vector<std::string> Fired(const TestRun& run) {
  std::vector<std::string> names;
  for (const model::AlertRow& row : run.rows) {
    if (row.alert().state() == v1::ALERT_STATE_FIRING) names.push_back(row.alert().rule());
  }
  return names;
}

TEST(CourseTest, FiftyOverlappingAttemptsLeaveThePastAsItWas) {
  TestRun run(kAll);
  int64_t resume = 0;
  for (uint32_t attempt = 1; attempt <= 50; ++attempt) {
    if (attempt > 1) run.evaluator->BeginAttempt({.number = attempt, .resume_step = resume});
    for (int64_t step = resume; step < resume + 60; ++step) {
      run.Step(step, {MakeSample("train.x", Healthy(step))});
    }
    resume += 7;
  }
  EXPECT_THAT(run.seen, IsEmpty());
  run.evaluator->BeginAttempt({.number = 51, .resume_step = resume});
  for (int64_t step = resume; step < resume + 30; ++step) {
    run.Step(step, {MakeSample("train.x", Healthy(step) + 3)});
  }
  EXPECT_THAT(Fired(run), ElementsAre("continuity", "cusum", "spikes", "shift"));
}

TEST(CourseTest, AStretchWithoutValuesLeavesThePastAsItWas) {
  for (const int64_t every : {1, 200}) {
    TestRun run(kAll);
    int64_t step = 0;
    for (int i = 0; i < 60; ++i) {
      step += every;
      run.Step(step, {MakeSample("train.x", Healthy(i))});
    }
    for (int i = 0; i < 500; ++i) run.Step(++step, {});  // none, or none that is a number
    for (int i = 0; i < 60; ++i) {
      step += every;
      run.Step(step, {MakeSample("train.x", Healthy(i))});
    }
    EXPECT_THAT(run.seen, IsEmpty()) << every;
    for (int i = 0; i < 30; ++i) {
      step += every;
      run.Step(step, {MakeSample("train.x", Healthy(i) + 3)});
    }
    EXPECT_THAT(Fired(run), ::testing::IsSupersetOf({"cusum", "spikes", "shift"})) << every;
  }
}

TEST(CourseTest, ARunOfTenStepsHasNoPast) {
  TestRun run(kAll);
  for (int64_t step = 0; step < 10; ++step) {
    run.Step(step, {MakeSample("train.x", step % 2 == 0 ? 1e30 : -1e30)});
  }
  EXPECT_THAT(run.seen, IsEmpty());
}

}  // namespace
}  // namespace foreshock::rules
