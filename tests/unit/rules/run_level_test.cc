// Detectors that judge the run: hang, restarts, coverage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/rules/evaluator.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kStepSeconds[] = "train.step_seconds";

void Tick(TestRun* run, double seconds, Life life = Life::kLive,
          std::vector<uint32_t> hindmost = {}) {
  const auto rows = run->evaluator->Tick({.now_unix_ns = static_cast<int64_t>(1e9 * seconds),
                                          .life = life,
                                          .hindmost = [&hindmost] { return hindmost; }});
  for (const model::AlertRow& row : rows) {
    run->seen.push_back(absl::StrCat("t", seconds, " ", Text(row)));
    run->rows.push_back(row);
  }
}

// ---- hang

TEST(HangTest, FiresAfterSoManyUsualStepTimesAndEndsWithTheNextStep) {
  TestRun run(OneRule({"hang: {intervals: 20, at_least: 10s}"}));
  for (int i = 0; i < 10; ++i) run.Step(i, {MakeSample(kStepSeconds, i == 3 ? 500 : 1)});
  Tick(&run, 1000);  // the wait begins
  Tick(&run, 1019.9);
  EXPECT_THAT(run.seen, IsEmpty());
  Tick(&run, 1020, Life::kLive, {3, 7});
  Tick(&run, 2000, Life::kLive, {3, 7});
  ASSERT_THAT(run.seen, ElementsAre("t1020 r firing"));
  const v1::Alert& fired = run.rows[0].alert();
  EXPECT_EQ(fired.firing_step(), 9);
  EXPECT_EQ(fired.value(), 20);
  EXPECT_EQ(fired.baseline(), 1);
  EXPECT_EQ(fired.rank(), 3u);
  EXPECT_EQ(fired.indicator(), kStepSeconds);
  EXPECT_FALSE(fired.has_last_healthy_step());
  EXPECT_EQ(fired.summary(),
            "Since step 9: no step closed for 20 s, where one usually takes 1 s; "
            "farthest back: ranks 3, 7");
  run.Step(10, {MakeSample(kStepSeconds, 1)});
  EXPECT_EQ(run.seen.back(), "10 r resolved");
  EXPECT_EQ(run.rows[1].alert().id(), fired.id());
  // And again, as another alert.
  Tick(&run, 3000);
  Tick(&run, 3020);
  ASSERT_EQ(run.seen.back(), "t3020 r firing");
  EXPECT_NE(run.rows[2].alert().id(), fired.id());
  EXPECT_FALSE(run.rows[2].alert().has_rank());
}

TEST(HangTest, AtLeastBoundsRunsOfShortStepsAndThoseWithoutAClock) {
  for (const bool clock : {true, false}) {
    TestRun run(OneRule({"hang: {intervals: 20, at_least: 1m}"}));
    for (int i = 0; i < 10; ++i) {
      run.Step(i, clock ? std::vector<model::Sample>{MakeSample(kStepSeconds, 0.1)}
                        : std::vector<model::Sample>{});
    }
    Tick(&run, 0);
    Tick(&run, 59);
    EXPECT_THAT(run.seen, IsEmpty());
    Tick(&run, 60);
    EXPECT_THAT(run.seen, ElementsAre("t60 r firing"));
  }
}

TEST(HangTest, TheFirstStepOfAnAttemptMayTakeLonger) {
  TestRun run(OneRule({"hang: {at_least: 10s, first_step: 2m}"}));
  Tick(&run, 0);
  Tick(&run, 119);
  EXPECT_THAT(run.seen, IsEmpty());
  Tick(&run, 120);
  EXPECT_THAT(run.seen, ElementsAre("t120 r firing"));
  run.Step(0, {});
  EXPECT_EQ(run.seen.back(), "0 r resolved");
  Tick(&run, 130);
  run.evaluator->BeginAttempt({.number = 2});
  Tick(&run, 140);  // the wait begins anew
  Tick(&run, 259);
  EXPECT_EQ(run.seen.size(), 2u);
  Tick(&run, 260);
  EXPECT_EQ(run.seen.back(), "t260 r firing");
}

TEST(HangTest, ARunThatHasEndedDoesNotHang) {
  TestRun run(OneRule({"hang: {at_least: 10s}"}));
  run.Step(0, {});
  Tick(&run, 0);
  Tick(&run, 100, Life::kEnded);
  EXPECT_THAT(run.seen, IsEmpty());
  Tick(&run, 101);  // a rank has come back
  Tick(&run, 110);
  EXPECT_THAT(run.seen, IsEmpty());
  Tick(&run, 111);
  Tick(&run, 112, Life::kUnheard);  // the daemon restarts
  EXPECT_THAT(run.seen, ElementsAre("t111 r firing"));
  Tick(&run, 113, Life::kEnded);
  EXPECT_THAT(run.seen, ElementsAre("t111 r firing", "t113 r resolved"));
}

TEST(HangTest, AClockThatGoesBackStartsTheWaitAnew) {
  TestRun run(OneRule({"hang: {at_least: 10s}"}));
  run.Step(0, {});
  Tick(&run, 1000);
  Tick(&run, 500);
  Tick(&run, 509);
  EXPECT_THAT(run.seen, IsEmpty());
  Tick(&run, 510);
  EXPECT_THAT(run.seen, ElementsAre("t510 r firing"));
}

TEST(HangTest, ASignatureSeesItWithoutAStep) {
  TestRun run(OneRule({"hang: {at_least: 10s}"}) +
              "signatures:\n  - {signature: s, when: r, labels: {severity: warning, fault: f}}\n");
  run.Step(0, {});
  Tick(&run, 0);
  Tick(&run, 10);
  EXPECT_THAT(run.seen, ElementsAre("t10 r firing", "t10 s firing"));
  run.Step(1, {});
  EXPECT_EQ(run.seen.back(), "1 s resolved");
}

TEST(HangTest, GoesOnOverARestartUntilAStepCloses) {
  const std::string rules = OneRule({"hang: {at_least: 10s}"});
  TestRun before(rules);
  before.Step(0, {MakeSample(kStepSeconds, 0.5)});
  Tick(&before, 0);
  Tick(&before, 10, Life::kLive, {2});
  ASSERT_EQ(before.rows.size(), 1u);

  TestRun after(rules);
  after.evaluator->Prime(MakeStep(0, {MakeSample(kStepSeconds, 0.5)}));
  ASSERT_OK(after.evaluator->Restore(before.rows[0]));
  Tick(&after, 20);
  Tick(&after, 100);
  EXPECT_THAT(after.seen, IsEmpty());  // told before
  after.Step(1, {});
  ASSERT_THAT(after.seen, ElementsAre("1 r resolved"));
  EXPECT_EQ(after.rows[0].alert().id(), before.rows[0].alert().id());
  EXPECT_EQ(after.rows[0].alert().rank(), 2u);
}

TEST(RestartsTest, MayBeginAtTheFirstTickAfterARestart) {
  TestRun run(OneRule({"restarts: {above: 0, in: 10 steps}"}));
  run.evaluator->Prime(MakeStep(0));
  run.evaluator->BeginAttempt({.number = 2});
  Tick(&run, 1);
  ASSERT_THAT(run.seen, ElementsAre("t1 r firing"));
  EXPECT_FALSE(run.rows[0].alert().id().empty());
}

// ---- skipped

void StepSkipped(TestRun* run, int64_t step, bool skipped) {
  model::ClosedStep closed = MakeStep(step);
  closed.row.skipped = skipped;
  run->Step(closed);
}

TEST(SkippedTest, FiresAtTheShareAndEndsBelowHalfOfIt) {
  TestRun run(OneRule({"skipped: {share: 0.4, of: 10 steps}"}));
  for (int step = 0; step < 20; ++step) StepSkipped(&run, step, step % 5 == 0);  // two of ten
  EXPECT_THAT(run.seen, IsEmpty());
  for (int step = 20; step < 40; ++step) StepSkipped(&run, step, step % 2 == 0);
  for (int step = 40; step < 60; ++step) StepSkipped(&run, step, false);
  // 15, 20, 22, 24; from step 46 on only 38 is left.
  EXPECT_THAT(run.seen, ElementsAre("24 r firing", "46 r resolved"));
  EXPECT_EQ(run.rows[0].alert().summary(),
            "Since step 24: the optimizer step was skipped in 4 of the last 10 steps");
}

TEST(SkippedTest, FewSkippedStepsAtTheStartAreNoShare) {
  TestRun run(OneRule({"skipped: {share: 0.5, of: 50 steps}"}));
  for (int step = 0; step < 24; ++step) StepSkipped(&run, step, true);
  for (int step = 24; step < 100; ++step) StepSkipped(&run, step, false);
  EXPECT_THAT(run.seen, IsEmpty());
}

// ---- restarts

TEST(RestartsTest, FiresWhenAttemptsBeginWithoutProgressAndEndsWithIt) {
  TestRun run(OneRule({"restarts: {above: 3, in: 100 steps}"}));
  for (int i = 0; i < 10; ++i) run.Step(i, {});
  for (uint32_t attempt = 2; attempt <= 4; ++attempt) {
    run.evaluator->BeginAttempt({.number = attempt, .resume_step = 5});
    for (int i = 5; i < 12; ++i) run.Step(i, {});
  }
  EXPECT_THAT(run.seen, IsEmpty());  // three
  run.evaluator->BeginAttempt({.number = 5, .resume_step = 5});
  run.Step(5, {});
  ASSERT_THAT(run.seen, ElementsAre("5 r firing"));
  EXPECT_EQ(run.rows[0].alert().value(), 4);
  EXPECT_EQ(run.rows[0].alert().summary(),
            "Since step 5: 4 attempts began anew while the run progressed by 100 steps");
  for (int i = 6; i < 200; ++i) run.Step(i, {});
  // The first of them began at step 9: behind step 109 three are left.
  EXPECT_THAT(run.seen, ElementsAre("5 r firing", "109 r resolved"));
}

TEST(RestartsTest, AttemptsThatCloseNoStepAreSeenByTheClock) {
  TestRun run(OneRule({"restarts: {above: 5, in: 100 steps}"}));
  run.Step(0, {});
  for (uint32_t attempt = 2; attempt <= 20; ++attempt) {
    run.evaluator->BeginAttempt({.number = attempt});
    Tick(&run, attempt);
  }
  EXPECT_THAT(run.seen, ElementsAre("t7 r firing"));
  EXPECT_EQ(run.rows[0].alert().firing_step(), 0);
}

TEST(RestartsTest, FiftyOverlappingAttemptsAreOneAlertEach) {
  // A rule that goes on firing over every resume, one that is restarted all the time.
  TestRun run(R"(
groups:
  - name: g
    defaults: {labels: {severity: info}, warm_up: judge}
    rules:
      - {alert: level, indicator: train.x, threshold: {above: 1}}
      - {alert: storm, restarts: {above: 5, in: 100 steps}}
      - {alert: flaps, indicator: train.y, threshold: {above: 1},
         rate_limit: {starts: 3, in: 1000 steps}}
)");
  for (uint32_t attempt = 1; attempt <= 50; ++attempt) {
    if (attempt > 1) run.evaluator->BeginAttempt({.number = attempt, .resume_step = 2 * attempt});
    for (int64_t i = 0; i < 12; ++i) {
      run.Step(2 * attempt + i,
               {MakeSample("train.x", 2), MakeSample("train.y", i % 4 == 3 ? 2 : 0)});
    }
  }
  const auto starts = [&run](const std::string& rule) {
    return std::count_if(run.rows.begin(), run.rows.end(), [&rule](const model::AlertRow& row) {
      return row.alert().rule() == rule && row.alert().state() == v1::ALERT_STATE_FIRING;
    });
  };
  EXPECT_EQ(starts("level"), 1);
  EXPECT_EQ(starts("storm"), 1);
  EXPECT_EQ(starts("flaps"), 3);
}

TEST(RestartsTest, WhatIsReachedMayBeSaidByTheCaller) {
  TestRun run(OneRule({"restarts: {above: 1, in: 10 steps}"}));
  run.evaluator->BeginAttempt({.number = 2, .reached = 1000});
  run.evaluator->BeginAttempt({.number = 3, .reached = 1005});
  run.Step(900, {});
  EXPECT_THAT(run.seen, ElementsAre("900 r firing"));
  for (const int64_t step : {1009, 1010}) run.Step(step, {});
  EXPECT_EQ(run.seen.back(), "1010 r resolved");
}

// ---- coverage

v1::PlanEntry Entry(v1::SummaryKind kind, std::vector<uint32_t> layers, uint32_t every,
                    uint32_t phase = 0) {
  v1::PlanEntry entry;
  entry.set_kind(kind);
  entry.mutable_layers()->Add(layers.begin(), layers.end());
  entry.set_every_steps(every);
  entry.set_phase_step(phase);
  return entry;
}

const std::vector<std::string> kCoverage = {"coverage: {missing_intervals: 3}"};

std::vector<model::Sample> Load(std::vector<int32_t> layers) {
  std::vector<model::Sample> samples;
  for (const int32_t layer : layers) samples.push_back(MakeSample("load.entropy", 1, layer));
  return samples;
}

TEST(CoverageTest, NamesTheLayersThatWentSilentAndThoseThatNeverCame) {
  TestRun run(OneRule(kCoverage));
  run.evaluator->DeclarePlan(0, 4, {Entry(v1::SUMMARY_KIND_ROUTER_LOAD, {0, 1, 2}, 10)});
  for (int i = 0; i <= 30; ++i) {  // layer 2 never
    run.Step(i, i % 10 == 0 ? Load({0, 1}) : Load({}));
  }
  ASSERT_THAT(run.seen, ElementsAre("20 r firing L2"));
  EXPECT_EQ(run.rows[0].alert().unit_name(), "router_load");
  EXPECT_EQ(run.rows[0].alert().value(), 3);
  EXPECT_EQ(run.rows[0].alert().summary(),
            "Since step 20: announced and not come: router_load of layer 2");
  for (int i = 31; i <= 60; ++i) run.Step(i, i % 10 == 0 ? Load({0}) : Load({}));
  EXPECT_EQ(run.seen.back(), "60 r firing L1 L2");  // at 40, 50 and 60
  run.Step(70, Load({0, 1}));
  EXPECT_EQ(run.seen.back(), "70 r firing L2");
  run.Step(80, Load({0, 1, 2}));
  EXPECT_EQ(run.seen.back(), "80 r resolved L2");
  EXPECT_EQ(run.rows.back().alert().id(), run.rows.front().alert().id());
}

TEST(CoverageTest, GapsOfStepsCountByTheirNumbers) {
  TestRun run(OneRule(kCoverage));
  run.evaluator->DeclarePlan(0, 4, {Entry(v1::SUMMARY_KIND_ROUTER_LOAD, {0}, 200, 5)});
  for (const int64_t step : {5, 205, 405}) run.Step(step, Load({0}));
  run.Step(1004, {});  // 605 and 805 were due
  EXPECT_THAT(run.seen, IsEmpty());
  run.Step(1005, {});
  EXPECT_THAT(run.seen, ElementsAre("1005 r firing L0"));
}

TEST(CoverageTest, DataOfOtherStepsThanAnnouncedAreData) {
  TestRun run(OneRule(kCoverage));
  run.evaluator->DeclarePlan(0, 4, {Entry(v1::SUMMARY_KIND_ROUTER_LOAD, {0}, 10)});
  for (int i = 0; i < 200; ++i) run.Step(i, i % 10 == 7 ? Load({0}) : Load({}));
  EXPECT_THAT(run.seen, IsEmpty());
}

TEST(CoverageTest, UndefinedAndNonFiniteDataHaveCome) {
  TestRun run(OneRule(kCoverage));
  run.evaluator->DeclarePlan(
      0, 4,
      {Entry(v1::SUMMARY_KIND_QK_FACTORS, {0, 1}, 10),
       Entry(v1::SUMMARY_KIND_ROUTER_GATES, {0}, 10), Entry(v1::SUMMARY_KIND_SCALARS, {}, 1)});
  for (int i = 0; i <= 100; ++i) {
    model::ClosedStep step = MakeStep(i);
    model::Finding loss;
    loss.name = "loss";
    step.findings.push_back(loss);
    if (i % 10 == 0) {
      step.undefined.push_back({"attn.delta2", "zero_update", 8});
      model::Finding gates;
      gates.name = "router_gates.scores";
      gates.layer = 0;
      step.findings.push_back(gates);
    }
    run.Step(step);
  }
  EXPECT_THAT(run.seen, IsEmpty());
  // Values flagged grid are data; an undefined one hides no layer when others have values.
  for (int i = 110; i <= 130; i += 10) {
    model::ClosedStep step = MakeStep(
        i, {MakeSample("attn.delta2.entropy", 1, 0, model::Unit::kHead, 0, model::kFlagGrid),
            MakeSample("train.loss", 1), MakeSample("router.token_entropy", 1, 0)});
    step.undefined.push_back({"attn.delta2", "no_base", 1});
    run.Step(step);
  }
  EXPECT_THAT(run.seen, ElementsAre("130 r firing L1"));
}

TEST(CoverageTest, WhatTheDaemonDerivesAtEveryStepIsNoData) {
  TestRun run(OneRule(kCoverage));
  run.evaluator->DeclarePlan(0, 4, {Entry(v1::SUMMARY_KIND_SCALARS, {}, 1)});
  for (int i = 0; i < 3; ++i) {
    run.Step(i, {MakeSample(kStepSeconds, 1), MakeSample("train.tokens_total", 8),
                 MakeSample("eval.train.loss", 1)});
  }
  EXPECT_THAT(run.seen, ElementsAre("2 r firing"));
  EXPECT_EQ(run.rows[0].alert().summary(), "Since step 2: announced and not come: scalars");
}

TEST(CoverageTest, LayersOfAPlanForAllLayersAreThoseThatCameOnce) {
  TestRun run(OneRule(kCoverage));
  run.evaluator->DeclarePlan(0, 4, {Entry(v1::SUMMARY_KIND_ROUTER_LOAD, {}, 1)});
  for (int i = 0; i < 10; ++i) run.Step(i, Load({3, 5}));
  for (int i = 10; i < 13; ++i) run.Step(i, Load({5}));
  EXPECT_THAT(run.seen, ElementsAre("12 r firing L3"));
}

TEST(CoverageTest, WithoutAPlanNothingIsJudged) {
  TestRun run(OneRule(kCoverage));
  run.evaluator->DeclarePlan(0, 8, {});
  for (int i = 0; i < 100; ++i) run.Step(i, {});
  EXPECT_THAT(run.seen, IsEmpty());
}

model::ClosedStep StepOfRanks(int64_t step, uint32_t ranks) {
  model::ClosedStep closed = MakeStep(step, {MakeSample("train.loss", 1)});
  closed.row.ranks = ranks;
  return closed;
}

TEST(CoverageTest, NamesRanksThatTakePartInNoStep) {
  TestRun run(OneRule(kCoverage));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    run.evaluator->DeclarePlan(rank, 4, {Entry(v1::SUMMARY_KIND_SCALARS, {}, 1)});
  }
  for (int i = 0; i < 10; ++i) run.Step(StepOfRanks(i, 4));
  for (int i = 10; i < 12; ++i) run.Step(StepOfRanks(i, 3));
  run.Step(StepOfRanks(12, 4));  // two in a row are no three
  EXPECT_THAT(run.seen, IsEmpty());
  run.evaluator->SetSilentRanks({2});
  for (int i = 13; i < 20; ++i) run.Step(StepOfRanks(i, 3));
  ASSERT_THAT(run.seen, ElementsAre("15 r firing"));
  EXPECT_EQ(run.rows[0].alert().rank(), 2u);
  EXPECT_THAT(run.rows[0].alert().summary(), HasSubstr("announced and not come: rank 2"));
  run.Step(StepOfRanks(20, 4));
  EXPECT_EQ(run.seen.back(), "20 r resolved");
}

TEST(CoverageTest, ARankThatNeverSaidHelloIsMissedAndOneThatSaidGoodbyeIsNot) {
  TestRun run(OneRule(kCoverage));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    run.evaluator->DeclarePlan(rank, 4, {Entry(v1::SUMMARY_KIND_SCALARS, {}, 10)});
  }
  for (int i = 0; i <= 20; ++i) run.Step(StepOfRanks(i, i % 10 == 0 ? 3 : 0));
  EXPECT_THAT(run.seen, ElementsAre("20 r firing"));
  run.evaluator->DeclarePlan(3, 4, {Entry(v1::SUMMARY_KIND_SCALARS, {}, 10)});
  run.Step(StepOfRanks(30, 4));
  EXPECT_EQ(run.seen.back(), "30 r resolved");
  run.evaluator->RankGone(1);
  for (int i = 31; i <= 100; ++i) run.Step(StepOfRanks(i, i % 10 == 0 ? 3 : 0));
  EXPECT_EQ(run.seen.size(), 2u);
}

TEST(CoverageTest, ANewAttemptAnnouncesAnew) {
  TestRun run(OneRule(kCoverage));
  run.evaluator->DeclarePlan(0, 4, {Entry(v1::SUMMARY_KIND_ROUTER_LOAD, {0, 1}, 1)});
  for (int i = 0; i < 10; ++i) run.Step(i, Load({0}));
  ASSERT_THAT(run.seen, ElementsAre("2 r firing L1"));
  run.evaluator->BeginAttempt({.number = 2, .resume_step = 5});
  run.evaluator->DeclarePlan(0, 4, {Entry(v1::SUMMARY_KIND_ROUTER_LOAD, {0}, 1)});
  run.Step(5, Load({0}));
  EXPECT_EQ(run.seen.back(), "5 r resolved L1");
}

TEST(CoverageTest, GoesOnOverARestartAndForgivesWhatItCannotKnow) {
  const std::vector<v1::PlanEntry> plan = {Entry(v1::SUMMARY_KIND_ROUTER_LOAD, {0, 1}, 10),
                                           Entry(v1::SUMMARY_KIND_QK_GRAM, {0}, 10)};
  // Layer 1 is silent; the snapshots of layer 0 leave undefined values, which are not stored.
  const auto step = [](int64_t i) {
    model::ClosedStep closed = MakeStep(i, i % 10 == 0 ? Load({0}) : Load({}));
    if (i % 10 == 0) closed.undefined.push_back({"attn.delta2", "zero_update", 1});
    return closed;
  };
  TestRun before(OneRule(kCoverage));
  before.evaluator->DeclarePlan(0, 4, plan);
  for (int i = 0; i <= 75; ++i) before.Step(step(i));
  ASSERT_THAT(before.seen, ElementsAre("20 r firing L1"));

  TestRun after(OneRule(kCoverage));
  after.evaluator->DeclarePlan(0, 4, plan);
  for (int i = 0; i <= 75; ++i) {
    model::ClosedStep stored = step(i);
    stored.undefined.clear();
    after.evaluator->Prime(stored);
  }
  ASSERT_OK(after.evaluator->Restore(before.rows.back()));
  for (int i = 76; i <= 100; ++i) after.Step(step(i));
  EXPECT_THAT(after.seen, IsEmpty());
  model::ClosedStep healed = step(110);
  healed.samples = Load({0, 1});
  after.Step(healed);
  ASSERT_THAT(after.seen, ElementsAre("110 r resolved L1"));
  EXPECT_EQ(after.rows[0].alert().id(), before.rows.back().alert().id());
}

}  // namespace
}  // namespace foreshock::rules
