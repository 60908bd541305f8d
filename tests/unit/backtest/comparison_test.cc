#include "daemon/backtest/comparison.h"

#include <functional>
#include <random>
#include <string>

#include "tests/support/status_matchers.h"

namespace foreshock::backtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

model::SeriesKey Key(const std::string& indicator, int32_t layer = model::kNoLayer) {
  return {indicator, layer, model::Unit::kNone, 0, ""};
}

Curve Made(int64_t steps, const std::function<double(int64_t)>& value, int64_t every = 1) {
  Curve curve;
  for (int64_t step = 0; step < steps; step += every) curve.push_back({step, value(step)});
  return curve;
}

// A slow fall with noise of about 0.01; the same noise for the same seed.
std::function<double(int64_t)> Loss(unsigned seed, int64_t from = 1'000'000, double jump = 0) {
  return [seed, from, jump](int64_t step) {
    std::mt19937 random(seed * 10'007u + static_cast<unsigned>(step));
    const double noise = std::normal_distribution<double>(0, 0.01)(random);
    return 4 - 0.001 * static_cast<double>(step) + noise + (step >= from ? jump : 0);
  };
}

RecordedRun RunOf(const std::string& name, std::map<model::SeriesKey, Curve> series) {
  RecordedRun run;
  run.name = name;
  run.series = std::move(series);
  return run;
}

Comparison Compared(const RecordedRun& a, const RecordedRun& b, CompareOptions options = {}) {
  const auto comparison = CompareRuns(a, b, options);
  EXPECT_OK(comparison);
  return *comparison;
}

TEST(Comparison, SaysSinceWhenAndByHowManySpreadsARunDiffers) {
  const RecordedRun a = RunOf("a", {{Key("train.loss"), Made(300, Loss(1))}});
  const RecordedRun b = RunOf("b", {{Key("train.loss"), Made(300, Loss(2, 200, 0.2))}});
  const Comparison comparison = Compared(a, b);
  ASSERT_EQ(comparison.series.size(), 1u);
  const SeriesDifference& loss = comparison.series[0];
  ASSERT_TRUE(loss.since.has_value());
  // The running median of 5 turns when three of its values have turned.
  EXPECT_NEAR(static_cast<double>(*loss.since), 200, 2);
  EXPECT_NEAR(loss.difference, 0.2, 0.01);
  EXPECT_NEAR(loss.spread, 0.01, 0.003);
  EXPECT_NEAR(loss.size.value(), 0.2 / loss.spread, 0.01 / loss.spread);
  EXPECT_GT(loss.share, 0.95);
}

TEST(Comparison, NoiseAloneDoesNotDiffer) {
  const RecordedRun a = RunOf("a", {{Key("train.loss"), Made(300, Loss(1))}});
  const RecordedRun b = RunOf("b", {{Key("train.loss"), Made(300, Loss(2))}});
  const Comparison comparison = Compared(a, b);
  EXPECT_FALSE(comparison.series[0].since.has_value());
  EXPECT_EQ(comparison.indicators[0].differing, 0u);
}

TEST(Comparison, AShortExcursionIsNoDifference) {
  auto spike = Loss(2);
  const RecordedRun a = RunOf("a", {{Key("train.loss"), Made(300, Loss(1))}});
  const RecordedRun b = RunOf("b", {{Key("train.loss"), Made(300, [&](int64_t step) {
                                       return spike(step) + (step >= 100 && step < 108 ? 1.0 : 0.0);
                                     })}});
  EXPECT_FALSE(Compared(a, b).series[0].since.has_value());
  CompareOptions hasty;
  hasty.in_a_row = 5;
  EXPECT_TRUE(Compared(a, b, hasty).series[0].since.has_value());
}

TEST(Comparison, AConstantBaselineHasNoSpreadAndComesFirst) {
  const auto constant = [](double value) { return [value](int64_t) { return value; }; };
  const RecordedRun a = RunOf("a", {{Key("train.lr"), Made(100, constant(1e-3))},
                                    {Key("train.loss"), Made(100, Loss(1))},
                                    {Key("train.wd"), Made(100, constant(0.1))}});
  const RecordedRun b = RunOf("b", {{Key("train.lr"), Made(100, constant(2e-3))},
                                    {Key("train.loss"), Made(100, Loss(1, 0, 5.0))},
                                    {Key("train.wd"), Made(100, constant(0.1 + 1e-9))}});
  const Comparison comparison = Compared(a, b);
  EXPECT_EQ(comparison.indicators[0].indicator, "train.lr");
  EXPECT_FALSE(comparison.series[comparison.indicators[0].worst].size.has_value());
  EXPECT_EQ(comparison.indicators[1].indicator, "train.loss");
  // What float32 cannot tell apart is the same.
  EXPECT_EQ(comparison.indicators[2].indicator, "train.wd");
  EXPECT_FALSE(comparison.indicators[2].since.has_value());
}

TEST(Comparison, NamesTheLayerThatIsFurthestAway) {
  std::map<model::SeriesKey, Curve> good;
  std::map<model::SeriesKey, Curve> bad;
  for (int32_t layer = 0; layer < 4; ++layer) {
    good[Key("router.z", layer)] = Made(200, Loss(10 + layer));
    bad[Key("router.z", layer)] = Made(200, Loss(20 + layer, layer == 2 ? 50 : 120,
                                                 layer == 2   ? 0.5
                                                 : layer == 3 ? 0.2
                                                              : 0));
  }
  const Comparison comparison = Compared(RunOf("a", good), RunOf("b", bad));
  ASSERT_EQ(comparison.indicators.size(), 1u);
  EXPECT_EQ(comparison.indicators[0].series, 4u);
  EXPECT_EQ(comparison.indicators[0].differing, 2u);
  EXPECT_EQ(comparison.series[comparison.indicators[0].worst].key.layer, 2);
  EXPECT_NEAR(static_cast<double>(*comparison.indicators[0].since), 50, 2);
}

TEST(Comparison, ByTokensARunWithTwiceTheBatchIsTheSame) {
  // Twice the tokens a step, so the loss at step s is that of the baseline at 2 s.
  RecordedRun a = RunOf("a", {{Key("train.loss"), Made(400, [](int64_t step) {
                                 return 4 - 0.01 * static_cast<double>(step + 1);
                               })}});
  RecordedRun b = RunOf("b", {{Key("train.loss"), Made(200, [](int64_t step) {
                                 return 4 - 0.02 * static_cast<double>(step + 1);
                               })}});
  for (int64_t step = 0; step < 400; ++step) a.tokens[step] = 100;
  for (int64_t step = 0; step < 200; ++step) b.tokens[step] = 200;
  EXPECT_TRUE(Compared(a, b).series[0].since.has_value());
  CompareOptions options;
  options.by_tokens = true;
  const Comparison comparison = Compared(a, b, options);
  EXPECT_FALSE(comparison.series[0].since.has_value());
  EXPECT_NEAR(comparison.series[0].difference, 0, 1e-12);
  EXPECT_EQ(comparison.series[0].run.size(), 200u);
  EXPECT_EQ(comparison.series[0].run.front().step, 200);
}

TEST(Comparison, IndicatorsOfOneRunOnlyAreNamed) {
  const RecordedRun a =
      RunOf("a", {{Key("train.loss"), Made(50, Loss(1))}, {Key("rl.k3"), Made(50, Loss(1))}});
  const RecordedRun b =
      RunOf("b", {{Key("train.loss"), Made(50, Loss(1))}, {Key("rl.k1"), Made(5, Loss(1))}});
  const Comparison comparison = Compared(a, b);
  EXPECT_THAT(comparison.only_baseline, ElementsAre("rl.k3"));
  EXPECT_THAT(comparison.only_run, ElementsAre("rl.k1"));
}

TEST(Comparison, RunsThatCannotBeComparedAreRefused) {
  const RecordedRun a = RunOf("a", {{Key("train.loss"), Made(50, Loss(1))}});
  const RecordedRun other = RunOf("b", {{Key("train.lr"), Made(50, Loss(1))}});
  const RecordedRun shorter = RunOf("c", {{Key("train.loss"), Made(19, Loss(1))}});
  EXPECT_THAT(CompareRuns(a, other, {}).status().message(),
              HasSubstr("the runs a and b have no series of the same indicator"));
  EXPECT_THAT(CompareRuns(a, shorter, {}).status().message(),
              HasSubstr("have at most 19 points of a series in common; at least 20 are needed"));
  CompareOptions options;
  options.by_tokens = true;
  EXPECT_THAT(CompareRuns(a, a, options).status().message(),
              HasSubstr("the run a has no steps with tokens; compare it by steps"));
}

TEST(RunRecorder, KeepsTheNewestAttemptsValueAndWhatMayBeJudged) {
  RunRecorder recorder({"train.loss", "rl.*"});
  for (int64_t step = 0; step < 10; ++step) EXPECT_OK(recorder.Add(Key("train.loss"), step, 1, 0));
  for (int64_t step = 5; step < 8; ++step) EXPECT_OK(recorder.Add(Key("train.loss"), step, 2, 0));
  EXPECT_OK(recorder.Add(Key("train.loss"), 20, 3, model::kFlagPartial));
  EXPECT_OK(recorder.Add(Key("train.lr"), 1, 3, 0));
  EXPECT_OK(recorder.Add(Key("rl.k3"), 1, 3, model::kFlagSampled));
  const RecordedRun run = recorder.Finish();
  EXPECT_EQ(run.series.size(), 2u);
  const Curve& loss = run.series.at(Key("train.loss"));
  ASSERT_EQ(loss.size(), 10u);
  EXPECT_EQ(loss[4].value, 1);
  EXPECT_EQ(loss[5].value, 2);
  EXPECT_EQ(loss[9].value, 1);
}

}  // namespace
}  // namespace foreshock::backtest
