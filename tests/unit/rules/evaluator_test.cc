// One rule at a time: inputs, baselines, quorum, silence, findings, attempts, reloads.
#include "daemon/rules/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/status_matchers.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLoss[] = "train.loss";
constexpr char kEntropy[] = "router.token_entropy_ratio";
constexpr char kDelta2[] = "attn.delta2.entropy_ratio_l1";

TEST(EvaluatorTest, ThresholdWithHysteresis) {
  TestRun run(OneRule({"indicator: train.loss", "threshold: {above: 10, clear: 8}", "hits: 2 of 2",
                       "clear_samples: 2"}));
  const double values[] = {1, 11, 9, 11, 12, 9, 7, 9, 7, 7, 1};
  for (int i = 0; i < 11; ++i) run.Step(i, {MakeSample(kLoss, values[i])});
  EXPECT_THAT(run.seen, ElementsAre("4 r firing", "9 r resolved"));
  const v1::Alert& fired = run.rows[0].alert();
  EXPECT_EQ(fired.pending_step(), 1);
  EXPECT_EQ(fired.firing_step(), 4);
  EXPECT_EQ(fired.last_healthy_step(), 0);
  EXPECT_EQ(fired.value(), 12);
  EXPECT_FALSE(fired.has_baseline());
  EXPECT_EQ(fired.indicator(), "train.loss");
  EXPECT_EQ(fired.severity(), "info");
  EXPECT_EQ(fired.run(), "run");
  EXPECT_EQ(fired.summary(), "Since step 4: train.loss is 12");
  EXPECT_EQ(run.rows[1].alert().id(), fired.id());
  EXPECT_EQ(run.rows[1].alert().resolved_step(), 9);
}

TEST(EvaluatorTest, RelativeDropAgainstALaggedBaselineThatTheFaultDoesNotEnter) {
  TestRun run(OneRule({"indicator: train.x", "relative_drop: {below: 0.95, clear: 0.98}",
                       "baseline: {kind: trailing, samples: 10, lag: 3, min_samples: 4}",
                       "hits: 3 of 3", "clear_samples: 2"}));
  for (int i = 0; i < 20; ++i) run.Step(i, {MakeSample("train.x", 1.0)});
  for (int i = 20; i < 40; ++i) run.Step(i, {MakeSample("train.x", 0.5)});
  for (int i = 40; i < 50; ++i) run.Step(i, {MakeSample("train.x", 1.0)});
  EXPECT_THAT(run.seen, ElementsAre("22 r firing", "41 r resolved"));
  EXPECT_EQ(run.rows[0].alert().baseline(), 1.0);
  EXPECT_EQ(run.rows[0].alert().last_healthy_step(), 19);
  EXPECT_EQ(run.rows[0].alert().summary(), "Since step 22: train.x is 0.5, baseline 1 (-50.0 %)");
}

TEST(EvaluatorTest, ALastingLevelIsToldUntilItIsBackOrDeclared) {
  const std::string rule = OneRule({"indicator: train.x", "relative_drop: {below: 0.95}",
                                    "baseline: {samples: 10, lag: 1, min_samples: 4}"});
  TestRun told(rule);
  for (int i = 0; i < 20; ++i) told.Step(i, {MakeSample("train.x", 1.0)});
  for (int i = 20; i < 5000; ++i) told.Step(i, {MakeSample("train.x", 0.5)});
  EXPECT_THAT(told.seen, ElementsAre("20 r firing"));
  told.Step(5000, {MakeSample("train.x", 1.0)});
  EXPECT_THAT(told.seen, ElementsAre("20 r firing", "5000 r resolved"));
}

TEST(EvaluatorTest, RobustZOfTheLogarithm) {
  const auto run_with = [](double last) {
    TestRun run(OneRule({"indicator: train.x", "robust_z: {above: 6, clear: 3, log: true}",
                         "baseline: {samples: 20, lag: 1, min_samples: 20}"}));
    for (int i = 0; i < 20; ++i) {
      run.Step(i, {MakeSample("train.x", i % 2 == 0 ? 10 : 10 * std::exp(0.1))});
    }
    run.Step(20, {MakeSample("train.x", last)});
    return run;
  };
  // The spread of the logarithm is 1.4826 * 0.05; six of them are a factor of exp(0.4448).
  EXPECT_THAT(run_with(10 * std::exp(0.05 + 0.43)).seen, IsEmpty());
  EXPECT_THAT(run_with(-1).seen, IsEmpty());  // has no logarithm: no sample
  const TestRun high = run_with(10 * std::exp(0.05 + 0.46));
  ASSERT_THAT(high.seen, ElementsAre("20 r firing"));
  EXPECT_NEAR(high.rows[0].alert().baseline(), 10 * std::exp(0.05), 1e-5);
}

TEST(EvaluatorTest, GapsAndAbsentValuesNeitherResetNorResolve) {
  TestRun run(OneRule(
      {"indicator: train.loss", "threshold: {above: 10}", "for: 10 steps", "clear_samples: 2"}));
  run.Step(0, {MakeSample(kLoss, 11)});
  for (int i = 1; i < 9; ++i) run.Step(i, {});  // NaN stretch: no points
  run.Step(200, {MakeSample(kLoss, 11)});       // and steps that never came
  EXPECT_THAT(run.seen, ElementsAre("200 r firing"));
  for (int i = 201; i < 400; ++i) run.Step(i, {});
  EXPECT_EQ(run.seen.size(), 1u);
  run.Step(400, {MakeSample(kLoss, 1)});
  run.Step(401, {MakeSample(kLoss, 1)});
  EXPECT_EQ(run.seen.back(), "401 r resolved");
}

TEST(EvaluatorTest, FlaggedPointsAreNotJudgedUnlessTheRuleAsks) {
  const std::vector<std::string> keys = {"indicator: " + std::string(kEntropy),
                                         "threshold: {below: 0.5}"};
  TestRun strict(OneRule(keys));
  TestRun lax(OneRule({keys[0], keys[1], "judge_flags: [few_tokens]"}));
  const uint32_t flags[] = {model::kFlagGrid, model::kFlagGram32, model::kFlagFewTokens,
                            model::kFlagPartial, model::kFlagSampled};
  for (int i = 0; i < 5; ++i) {
    const std::vector<model::Sample> samples = {
        MakeSample(kEntropy, 0.1, 0, model::Unit::kNone, 0, flags[i])};
    strict.Step(i, samples);
    lax.Step(i, samples);
  }
  EXPECT_THAT(strict.seen, ElementsAre("4 r firing L0"));
  EXPECT_THAT(lax.seen, ElementsAre("2 r firing L0"));
}

TEST(EvaluatorTest, AggregatesOverTheUnitsOfALayer) {
  const struct {
    const char* aggregate;
    double expected;
  } kCases[] = {{"mean", 5.5}, {"min", 1}, {"max", 10}, {"p10", 1.9}, {"each", 10}};
  for (const auto& test : kCases) {
    TestRun run(OneRule({"indicator: attn.logits.max", absl::StrCat("aggregate: ", test.aggregate),
                         "threshold: {above: 0}"}));
    std::vector<model::Sample> samples;
    for (int head = 0; head < 10; ++head) {
      samples.push_back(MakeSample("attn.logits.max", head + 1, 3, model::Unit::kHead, head));
    }
    run.Step(0, samples);
    ASSERT_THAT(run.seen, ElementsAre("0 r firing L3")) << test.aggregate;
    EXPECT_EQ(run.rows[0].alert().value(), test.expected) << test.aggregate;
    EXPECT_EQ(run.rows[0].alert().has_head(), std::string(test.aggregate) == "each");
  }
}

TEST(EvaluatorTest, QuorumOverHeadsAndLayers) {
  TestRun run(OneRule(
      {"indicator: attn.logits.max", "threshold: {above: 10}", "quorum: {heads: 2, layers: 50%}"}));
  const auto step = [&run](int64_t step, std::vector<std::vector<double>> layers) {
    std::vector<model::Sample> samples;
    for (size_t l = 0; l < layers.size(); ++l) {
      for (size_t h = 0; h < layers[l].size(); ++h) {
        samples.push_back(MakeSample("attn.logits.max", layers[l][h], static_cast<int32_t>(l),
                                     model::Unit::kHead, static_cast<int64_t>(h)));
      }
    }
    run.Step(step, samples);
  };
  step(0, {{11, 1, 1}, {11, 1, 1}, {11, 1, 1}});    // one head everywhere
  step(1, {{11, 12, 1}, {1, 1, 1}, {1, 1, 1}});     // one layer of three
  step(2, {{11, 12, 1}, {1, 1, 1}, {11, 11, 11}});  // two of three
  step(3, {{11, 12, 1}, {11, 12, 1}, {11, 11, 11}});
  step(4, {{1, 1, 1}, {1, 1, 1}, {11, 11, 11}});
  EXPECT_THAT(run.seen,
              ElementsAre("2 r firing L0 L2", "3 r firing L0 L1 L2", "4 r resolved L0 L1 L2"));
  EXPECT_FALSE(run.rows[0].alert().all_layers());
  EXPECT_TRUE(run.rows[1].alert().all_layers());
  EXPECT_EQ(run.rows[1].alert().id(), run.rows[0].alert().id());
}

TEST(EvaluatorTest, UpdatesSubtractTheirWindowForTheLastHealthyStep) {
  TestRun run(OneRule({absl::StrCat("indicator: ", kDelta2), "aggregate: mean",
                       "threshold: {below: 0.5}", "hits: 2 of 2"}));
  for (const int64_t step : {0, 50, 100, 150}) {
    model::ClosedStep closed =
        MakeStep(step, {MakeSample("attn.delta.window_steps", 50, 1, model::Unit::kHead, 0),
                        MakeSample(kDelta2, step >= 100 ? 0.4 : 0.8, 1, model::Unit::kHead, 0)});
    v1::Event event;
    event.set_kind(v1::EVENT_KIND_CHECKPOINT_SAVED);
    event.set_step(step);
    event.set_name(absl::StrCat("ckpt-", step));
    closed.events.push_back(event);
    run.Step(closed);
  }
  ASSERT_THAT(run.seen, ElementsAre("150 r firing L1"));
  EXPECT_EQ(run.rows[0].alert().pending_step(), 100);
  EXPECT_EQ(run.rows[0].alert().last_healthy_step(), 50);
  EXPECT_EQ(run.rows[0].alert().checkpoint(), "ckpt-50");
}

TEST(EvaluatorTest, DividesByTheMeanOverTheWindow) {
  TestRun run(OneRule({"indicator: attn.delta2.relative_norm", "aggregate: mean",
                       "divide_by: train.lr", "threshold: {above: 15}"}));
  for (int64_t step = 0; step <= 20; ++step) {
    std::vector<model::Sample> samples = {MakeSample("train.lr", step <= 10 ? 1.0 : 4.0)};
    if (step == 10 || step == 20) {
      samples.push_back(MakeSample("attn.delta.window_steps", 10, 0, model::Unit::kHead, 0));
      samples.push_back(MakeSample("attn.delta2.relative_norm", 20, 0, model::Unit::kHead, 0));
    }
    run.Step(step, samples);
  }
  EXPECT_THAT(run.seen, ElementsAre("10 r firing L0", "20 r resolved L0"));
  EXPECT_EQ(run.rows[0].alert().value(), 20);
  EXPECT_EQ(run.rows[1].alert().value(), 20);  // of what is over: the worst
  const std::vector<JudgedSeries> judged = run.evaluator->Judged("r");
  ASSERT_EQ(judged.size(), 1u);
  EXPECT_EQ(judged[0].value, 5);
}

TEST(EvaluatorTest, CombinesScalarsOfTheSameStep) {
  TestRun run(OneRule({"indicators: [train.a, train.b]", "combine: norm", "divide_by: train.c",
                       "threshold: {above: 2}"}));
  run.Step(0, {MakeSample("train.a", 30), MakeSample("train.c", 1)});  // b is missing
  run.Step(1, {MakeSample("train.a", 3), MakeSample("train.b", 4)});   // c is missing
  run.Step(2, {MakeSample("train.a", 3), MakeSample("train.b", 4), MakeSample("train.c", 0)});
  EXPECT_THAT(run.seen, IsEmpty());
  run.Step(3, {MakeSample("train.a", 3), MakeSample("train.b", 4), MakeSample("train.c", 2)});
  ASSERT_THAT(run.seen, ElementsAre("3 r firing"));
  EXPECT_EQ(run.rows[0].alert().value(), 2.5);
}

TEST(EvaluatorTest, ScopeTellsTheRunsScalarFromTheRanks) {
  TestRun of_run(OneRule({"indicator: train.loss", "scope: run", "threshold: {above: 10}"}));
  TestRun of_rank(OneRule({"indicator: train.loss", "scope: rank", "threshold: {above: 10}"}));
  const std::vector<model::Sample> samples = {
      MakeSample(kLoss, 1), MakeSample(kLoss, 1, model::kNoLayer, model::Unit::kRank, 0),
      MakeSample(kLoss, 11, model::kNoLayer, model::Unit::kRank, 7)};
  of_run.Step(0, samples);
  of_rank.Step(0, samples);
  EXPECT_THAT(of_run.seen, IsEmpty());
  ASSERT_THAT(of_rank.seen, ElementsAre("0 r firing"));
  EXPECT_EQ(of_rank.rows[0].alert().rank(), 7u);
}

TEST(EvaluatorTest, SmoothingIsARunningMedian) {
  TestRun run(OneRule({"indicator: train.x", "smooth: {median: 3}", "threshold: {above: 10}"}));
  const double values[] = {20, 1, 20, 1, 1, 20, 20};
  for (int i = 0; i < 7; ++i) run.Step(i, {MakeSample("train.x", values[i])});
  EXPECT_THAT(run.seen, ElementsAre("2 r firing", "3 r resolved", "6 r firing"));
}

TEST(EvaluatorTest, NoDataIsJudgedInMissedIntervals) {
  TestRun run(OneRule({absl::StrCat("indicator: ", kEntropy), "no_data: {intervals: 3}"}));
  for (int64_t step = 0; step < 100; ++step) {
    std::vector<model::Sample> samples;
    if (step % 10 == 0 && (step <= 30 || step >= 80)) samples = {MakeSample(kEntropy, 0.9, 2)};
    run.Step(step, samples);
  }
  EXPECT_THAT(run.seen, ElementsAre("60 r firing L2", "80 r resolved L2"));
  EXPECT_EQ(run.rows[0].alert().last_healthy_step(), 30);
  EXPECT_EQ(run.rows[0].alert().value(), 3);
}

model::ClosedStep WithFindings(int64_t step, std::vector<uint32_t> ranks,
                               const std::string& name = "loss") {
  model::ClosedStep closed = MakeStep(step);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
      closed.samples.push_back(MakeSample(kLoss, 1, model::kNoLayer, model::Unit::kRank, rank));
      continue;
    }
    model::Finding finding;
    finding.name = name;
    finding.rank = rank;
    finding.count = 2;
    closed.findings.push_back(finding);
  }
  return closed;
}

TEST(EvaluatorTest, NonFiniteFindingsNameTheRank) {
  TestRun run(OneRule(
      {"non_finite: {names: [loss], scope: rank, ranks: {at_most: 0.5}}", "clear_samples: 3"}));
  run.Step(WithFindings(0, {}));
  run.Step(WithFindings(1, {2}));
  for (int i = 2; i < 6; ++i) run.Step(WithFindings(i, {}));
  run.Step(WithFindings(10, {0, 1, 2}));  // more than half of the ranks
  EXPECT_THAT(run.seen, ElementsAre("1 r firing", "4 r resolved"));
  const v1::Alert& alert = run.rows[0].alert();
  EXPECT_EQ(alert.rank(), 2u);
  EXPECT_EQ(alert.unit_name(), "loss");
  EXPECT_EQ(alert.value(), 2);
  EXPECT_EQ(alert.indicator(), "train.nonfinite");
  EXPECT_EQ(alert.last_healthy_step(), 0);
}

TEST(EvaluatorTest, NonFiniteFindingsOfSkippedStepsAreTheLossScalersBusiness) {
  TestRun run(OneRule({"non_finite: {}"}));
  model::ClosedStep skipped = WithFindings(0, {1}, "grad_norm");
  skipped.row.skipped = true;
  run.Step(skipped);
  EXPECT_THAT(run.seen, IsEmpty());
  run.Step(WithFindings(1, {1}, "grad_norm"));
  EXPECT_THAT(run.seen, ElementsAre("1 r firing"));
}

TEST(EvaluatorTest, StepsAtOrBeforeTheLastOneAreIgnored) {
  TestRun run(OneRule({"indicator: train.loss", "threshold: {above: 10}"}));
  run.Step(5, {MakeSample(kLoss, 1)});
  run.Step(5, {MakeSample(kLoss, 99)});
  run.Step(4, {MakeSample(kLoss, 99)});
  EXPECT_THAT(run.seen, IsEmpty());
}

TEST(EvaluatorTest, AResumeForgetsTheStepsThatRunAgainAndKeepsTheRest) {
  const std::string rule =
      OneRule({"indicator: train.x", "relative_drop: {below: 0.95, clear: 0.98}",
               "baseline: {samples: 20, lag: 1, min_samples: 10}", "hits: 3 of 3"});
  TestRun run(rule);
  for (int i = 0; i < 30; ++i) run.Step(i, {MakeSample("train.x", 1.0)});
  run.Step(30, {MakeSample("train.x", 0.5)});
  run.Step(31, {MakeSample("train.x", 0.5)});  // pending
  run.evaluator->BeginAttempt({.number = 2, .resume_step = 20});
  for (int i = 20; i < 22; ++i) run.Step(i, {MakeSample("train.x", 0.5)});
  EXPECT_THAT(run.seen, IsEmpty());  // the two hits of the parent do not count
  run.Step(22, {MakeSample("train.x", 0.5)});
  ASSERT_THAT(run.seen, ElementsAre("22 r firing"));  // against the parent's baseline
  EXPECT_EQ(run.rows[0].alert().attempt(), 2u);
  // It goes on firing over another resume: that is no reason for another page.
  run.evaluator->BeginAttempt({.number = 3, .resume_step = std::nullopt});
  run.Step(10, {MakeSample("train.x", 0.5)});
  EXPECT_EQ(run.seen.size(), 1u);
  run.Step(11, {MakeSample("train.x", 1.0)});
  ASSERT_THAT(run.seen, ElementsAre("22 r firing", "11 r resolved"));
  EXPECT_EQ(run.rows[1].alert().id(), run.rows[0].alert().id());
}

TEST(EvaluatorTest, AnAlertThatTheResumeHasCuredEndsAtOnce) {
  TestRun run(OneRule({"indicator: train.x", "threshold: {above: 1}", "clear_samples: 2",
                       "keep_firing_for: 3 steps"}));
  for (int i = 0; i < 30; ++i) run.Step(i, {MakeSample("train.x", i < 20 ? 0.5 : 2)});
  run.evaluator->BeginAttempt({.number = 2, .resume_step = 10});
  for (int i = 10; i < 20; ++i) run.Step(i, {MakeSample("train.x", 0.5)});
  EXPECT_THAT(run.seen, ElementsAre("20 r firing", "13 r resolved"));
}

TEST(EvaluatorTest, NoVerdictsAndNoBaselineBeforeTheRunHasSettled) {
  std::string rule = OneRule({"indicator: train.x", "relative_drop: {below: 0.95}",
                              "baseline: {samples: 20, lag: 1, min_samples: 10}"});
  rule.erase(rule.find("        warm_up: judge\n"), 23);
  TestRun run(rule);
  int64_t step = 0;
  // Falls through the whole warm-up and on until step 255, then stays.
  for (; step < 400; ++step) {
    run.Step(step, {MakeSample("train.lr", std::min(1.0, (static_cast<double>(step) + 1) / 100)),
                    MakeSample("train.x", step < 240 ? 1000.0 - static_cast<double>(step) : 500)});
  }
  EXPECT_THAT(run.seen, IsEmpty());
  for (; step < 410; ++step) {
    run.Step(step, {MakeSample("train.lr", 1.0), MakeSample("train.x", 100)});
  }
  EXPECT_THAT(run.seen, ElementsAre("400 r firing"));
}

TEST(EvaluatorTest, AChangedWindowStartsANewBaseline) {
  const auto run_with = [](uint32_t flags) {
    TestRun run(OneRule({absl::StrCat("indicator: ", kDelta2), "aggregate: mean",
                         "relative_drop: {below: 0.95}",
                         "baseline: {samples: 20, lag: 1, min_samples: 5}"}));
    for (int i = 0; i < 40; ++i) {
      run.Step(i, {MakeSample(kDelta2, i < 20 ? 1.0 : 0.5, 0, model::Unit::kHead, 0,
                              i == 20 ? flags : 0)});
    }
    return run.seen;
  };
  EXPECT_THAT(run_with(0), ElementsAre("20 r firing L0"));
  EXPECT_THAT(run_with(model::kFlagRebaseline), IsEmpty());
}

TEST(EvaluatorTest, UpdatesOverAnotherWindowAreNoFaultAndNoPast) {
  const std::vector<std::string> keys = {"indicator: attn.delta2.relative_norm",
                                         "relative_rise: {above: 2, clear: 1.5}",
                                         "baseline: {kind: trailing, samples: 10, min_samples: 4}"};
  const auto sample = [](int64_t step, int64_t window, double value) {
    return MakeStep(step, {MakeSample("attn.delta.window_steps", static_cast<double>(window), 0),
                           MakeSample("attn.delta2.relative_norm", value, 0)});
  };
  TestRun run(OneRule(keys));
  for (int64_t step = 10; step <= 200; step += 10) run.Step(sample(step, 10, 0.1));
  run.Step(sample(220, 20, 0.25));  // one was missed
  for (int64_t step = 230; step <= 300; step += 10) run.Step(sample(step, 10, 0.1));
  // From here on every 25 steps: two and a half times the update.
  for (int64_t step = 325; step <= 600; step += 25) run.Step(sample(step, 25, 0.25));
  EXPECT_THAT(run.seen, IsEmpty());
  run.Step(sample(625, 25, 0.8));
  EXPECT_THAT(run.seen, ElementsAre("625 r firing L0"));

  // The control: an update that grows within its window is told.
  TestRun same(OneRule(keys));
  for (int64_t step = 10; step <= 200; step += 10) same.Step(sample(step, 10, 0.1));
  same.Step(sample(210, 10, 0.25));
  EXPECT_THAT(same.seen, ElementsAre("210 r firing L0"));
}

TEST(EvaluatorTest, AReloadCarriesOverWhatDidNotChange) {
  const std::string first = OneRule({"indicator: train.loss", "threshold: {above: 10}"});
  const std::string same = "# a comment\n" + first;
  const std::string other = OneRule({"indicator: train.loss", "threshold: {above: 9}"});
  TestRun run(first);
  run.Step(0, {MakeSample(kLoss, 11)});
  ASSERT_OK_AND_ASSIGN(auto same_rules, ParseRules("b.yaml", same));
  EXPECT_THAT(run.evaluator->ReplaceRules(same_rules), IsEmpty());
  run.Step(1, {MakeSample(kLoss, 11)});
  EXPECT_THAT(run.seen, ElementsAre("0 r firing"));

  ASSERT_OK_AND_ASSIGN(auto other_rules, ParseRules("b.yaml", other));
  const std::vector<model::AlertRow> ended = run.evaluator->ReplaceRules(other_rules);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(Text(ended[0]), "r resolved");
  EXPECT_EQ(ended[0].alert().id(), run.rows[0].alert().id());
  EXPECT_EQ(ended[0].alert().resolved_step(), 1);
  run.Step(2, {MakeSample(kLoss, 11)});
  EXPECT_THAT(run.seen, ElementsAre("0 r firing", "2 r firing"));
}

TEST(EvaluatorTest, TenThousandSeriesAreJudgedEachOnItsOwn) {
  TestRun run(OneRule({"indicator: load.share", "threshold: {above: 3}"}));
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<model::Sample> samples;
    for (int32_t layer = 0; layer < 40; ++layer) {
      for (int64_t expert = 0; expert < 250; ++expert) {
        const bool hot = step == 2 && layer == 17 && expert == 123;
        samples.push_back(
            MakeSample("load.share", hot ? 4 : 1, layer, model::Unit::kExpert, expert));
      }
    }
    run.Step(step, samples);
  }
  ASSERT_THAT(run.seen, ElementsAre("2 r firing L17"));
  EXPECT_EQ(run.rows[0].alert().unit_name(), "expert 123");
}

}  // namespace
}  // namespace foreshock::rules
