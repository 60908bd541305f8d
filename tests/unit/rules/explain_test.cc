// How far rules have judged a run, what they see in it, and what nobody sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rules/evaluator.h"
#include "daemon/rules/unknown_scalars.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/random_run.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::ExplainResponse Explained(const Evaluator& evaluator, const std::string& rule) {
  v1::ExplainResponse response;
  EXPECT_TRUE(evaluator.Explain(rule, &response)) << rule;
  return response;
}

v1::RuleJudging JudgingOf(const std::vector<std::string>& keys,
                          const std::vector<model::ClosedStep>& steps) {
  TestRun run(OneRule(keys));
  for (const model::ClosedStep& step : steps) run.Step(step);
  return run.evaluator->Judging().at(0);
}

std::vector<model::ClosedStep> Losses(int count, double value = 2) {
  std::vector<model::ClosedStep> steps;
  for (int64_t step = 5; step < 5 + count; ++step) {
    steps.push_back(MakeStep(step, {MakeSample("train.loss", value)}));
  }
  return steps;
}

TEST(JudgedRowsTest, CountFromTheFirstRowWithAVerdict) {
  const v1::RuleJudging at_once =
      JudgingOf({"indicator: train.loss", "threshold: {above: 9}"}, Losses(4));
  EXPECT_EQ(at_once.rule(), "r");
  EXPECT_EQ(at_once.from_step(), 5);
  EXPECT_EQ(at_once.rows(), 4u);
  EXPECT_EQ(at_once.rows_seen(), 4u);
  EXPECT_EQ(at_once.series(), 1u);
  EXPECT_EQ(at_once.why_not(), "");
  const v1::RuleJudging later =
      JudgingOf({"indicator: train.loss", "relative_rise: {above: 2}",
                 "baseline: {kind: trailing, samples: 10, lag: 1, min_samples: 3}"},
                Losses(10));
  EXPECT_EQ(later.rows_seen(), 10u);
  EXPECT_EQ(later.from_step(), 8);
  EXPECT_EQ(later.rows(), 7u);
}

TEST(JudgedRowsTest, SayWhyNothingWasJudged) {
  struct Case {
    std::vector<std::string> keys;
    std::string why;
  };
  const Case cases[] = {
      {{"indicator: train.reward_mean", "threshold: {above: 9}"},
       "no value of train.reward_mean has come"},
      {{"indicator: train.loss", "relative_rise: {above: 2}", "baseline: {min_samples: 9}"},
       "3 rows have come, too few to know what is usual"},
      {{"indicator: train.loss", "level: {rise: 0.1}"},
       "3 rows have come, too few to know what is usual"},
      {{"indicator: train.loss", "threshold: {above: 9}", "divide_by: train.lr"},
       "train.lr, by which it is divided, has not come"},
      {{"indicators: [train.loss, train.aux_loss]", "combine: sum", "threshold: {above: 9}"},
       "train.loss, train.aux_loss have not all come at one step"},
  };
  for (const Case& c : cases) {
    const v1::RuleJudging judging = JudgingOf(c.keys, Losses(3));
    EXPECT_FALSE(judging.has_from_step());
    EXPECT_EQ(judging.rows(), 0u);
    EXPECT_EQ(judging.why_not(), c.why);
  }
  std::string warm_up = OneRule({"indicator: train.loss", "threshold: {above: 9}"});
  warm_up.replace(warm_up.find("warm_up: judge"), 14, "warm_up: skip");
  TestRun run(warm_up);
  for (const model::ClosedStep& step : Losses(3)) run.Step(step);
  EXPECT_THAT(run.evaluator->Judging().at(0).why_not(), HasSubstr("warm-up has not ended"));
}

// Of every kind of rule and signature, in runs in which everything happens.
TEST(ExplainTest, AgreesWithWhatIsTold) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int fired = 0;
  for (int trial = 0; trial < 10; ++trial) {
    const std::unique_ptr<Evaluator> evaluator = NewEvaluator();
    evaluator->BeginAttempt({.number = 1});
    std::map<std::string, bool> firing;
    uint64_t steps = 0;
    for (const model::ClosedStep& step : RandomRun(&random, 200)) {
      ++steps;
      for (const model::AlertRow& row : evaluator->Evaluate(step)) {
        const v1::Alert& alert = row.alert();
        firing[alert.rule()] = alert.state() == v1::ALERT_STATE_FIRING;
        const v1::ExplainResponse seen = Explained(*evaluator, alert.rule());
        ASSERT_EQ(seen.firing(), firing[alert.rule()]) << alert.rule();
        if (!seen.firing() || seen.series().empty()) continue;
        ++fired;
        // What has fired was judged, and the alert's value is that of one of the series.
        EXPECT_GT(seen.judging(0).rows(), 0u);
        EXPECT_LE(seen.judging(0).from_step(), alert.firing_step());
        const bool there = std::any_of(
            seen.series().begin(), seen.series().end(), [&](const v1::ExplainedSeries& series) {
              return series.firing() && series.value() == alert.value() &&
                     series.has_baseline() == alert.has_baseline();
            });
        EXPECT_TRUE(there) << alert.ShortDebugString() << seen.ShortDebugString();
        EXPECT_THAT(seen.missing(), HasSubstr("it fires since step "));
      }
    }
    for (const v1::RuleJudging& judging : evaluator->Judging()) {
      EXPECT_LE(judging.rows(), steps);
      EXPECT_EQ(judging.rows() > 0, judging.has_from_step());
      EXPECT_EQ(judging.rows() == 0, !judging.why_not().empty()) << judging.ShortDebugString();
      const v1::ExplainResponse seen = Explained(*evaluator, judging.rule());
      EXPECT_EQ(seen.firing(), firing[judging.rule()]) << judging.rule();
      EXPECT_NE(seen.missing(), "");
      for (const v1::ExplainedSeries& series : seen.series()) EXPECT_NE(series.missing(), "");
    }
    const v1::Judged judged = evaluator->JudgedSoFar();
    EXPECT_GT(judged.rules_judging(), 10u);
    EXPECT_LE(judged.rules_judging(), judged.rules());
    EXPECT_GT(judged.rows(), steps / 2);
    EXPECT_LE(judged.rows(), steps);
  }
  EXPECT_GT(fired, 50);
}

TEST(ExplainTest, SaysValueBaselineNoiseLimitAndWhatIsMissing) {
  TestRun run(OneRule({"indicator: train.loss", "relative_rise: {above: 1.5}", "hits: 2 of 3",
                       "baseline: {kind: trailing, samples: 10, lag: 1, min_samples: 3}"}));
  for (const model::ClosedStep& step : Losses(10)) run.Step(step);
  run.Step(15, {MakeSample("train.loss", 2.5)});
  v1::ExplainResponse seen = Explained(*run.evaluator, "r");
  EXPECT_EQ(seen.measure(), "train.loss");
  ASSERT_EQ(seen.series_size(), 1);
  EXPECT_EQ(seen.series(0).step(), 15);
  EXPECT_EQ(seen.series(0).value(), 2.5);
  EXPECT_EQ(seen.series(0).baseline(), 2);
  EXPECT_EQ(seen.series(0).limit(), 3);
  EXPECT_EQ(seen.series(0).measured(), 1.25);
  EXPECT_GT(seen.series(0).noise(), 0);
  EXPECT_EQ(seen.series(0).missing(), "it does not breach: 2.5 against a limit of 3");
  EXPECT_EQ(seen.missing(), "too few of its 1 series fire: 0; 0 breach at their newest value");
  run.Step(16, {MakeSample("train.loss", 4)});
  seen = Explained(*run.evaluator, "r");
  EXPECT_EQ(seen.series(0).missing(),
            "it breaches since step 16; needs 2 breaches among 3 samples");
  run.Step(17, {MakeSample("train.loss", 4)});
  seen = Explained(*run.evaluator, "r");
  EXPECT_TRUE(seen.firing());
  EXPECT_EQ(seen.missing(), "it fires since step 17");
  v1::ExplainResponse none;
  EXPECT_FALSE(run.evaluator->Explain("other", &none));
}

TEST(UnknownScalarsTest, NameWhatIsNeitherUsualNorSent) {
  ASSERT_OK_AND_ASSIGN(const auto rules, ParseRules("mine.yaml", R"(
groups:
  - name: g
    defaults: {labels: {severity: info}}
    rules:
      - {alert: a, indicator: train.los, threshold: {above: 1}}
      - {alert: b, indicator: eval.train.own_metric, threshold: {above: 1}}
      - {alert: c, indicator: attn.logits.max, divide_by: train.lrr, threshold: {above: 1}}
      - {alert: d, indicator: train.loss, threshold: {above: 1}}
      - {alert: e, indicator: train.step_seconds, threshold: {above: 1}}
)"));
  EXPECT_THAT(
      UnknownScalars(*rules, {}),
      ElementsAre("mine.yaml:6: the rule a looks at train.los, which is no usual scalar: it judges "
                  "only runs that send `los`; did you mean train.loss?",
                  "mine.yaml:7: the rule b looks at eval.train.own_metric, which is no usual "
                  "scalar: it judges only runs that send `own_metric`",
                  "mine.yaml:8: the rule c looks at train.lrr, which is no usual scalar: it judges "
                  "only runs that send `lrr`; did you mean train.lr?"));
  EXPECT_THAT(UnknownScalars(*rules, {"own_metric", "lrr"}),
              ElementsAre(HasSubstr("the rule a looks at train.los")));
}

TEST(UnknownScalarsTest, TheShippedRulesLookAtUsualOnes) {
  const std::vector<std::string> files = {FORESHOCK_SOURCE_DIR "/rules/default.yaml",
                                          FORESHOCK_SOURCE_DIR "/rules/signatures.yaml"};
  ASSERT_OK_AND_ASSIGN(const auto rules, LoadRules(files));
  EXPECT_THAT(UnknownScalars(*rules, {}), IsEmpty());
}

}  // namespace
}  // namespace foreshock::rules
