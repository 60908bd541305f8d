// Band files from runs.
#include "daemon/backtest/band.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/yaml/yaml.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::backtest {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRules[] = R"(groups:
  - name: g
    defaults: {labels: {severity: info}}
    rules:
      - {alert: mean, indicator: attn.delta2.relative_norm, aggregate: mean, threshold: {above: 1}}
      - {alert: loss, indicator: train.loss, scope: run, threshold: {above: 1}}
      - {alert: each, indicator: attn.logits.max, threshold: {above: 1}}
)";

class BandTest : public ::testing::Test {
 protected:
  BandTest() { Use(BandMaker::Align::kStep); }

  void Use(BandMaker::Align align) {
    const auto rules = rules::ParseRules("test.yaml", kRules);
    ASSERT_TRUE(rules.ok()) << rules.status();
    maker = std::make_unique<BandMaker>(
        std::dynamic_pointer_cast<const rules::CompiledRules>(*rules), align);
  }
  void Begin(const std::string& run) {
    maker->BeginAttempt(run, v1::ModelShape(), {.number = 1, .resume_step = std::nullopt});
  }
  void Loss(int64_t step, double value, uint32_t flags = 0, uint64_t tokens = 0) {
    model::ClosedStep closed = rules::MakeStep(
        step,
        {rules::MakeSample("train.loss", value, model::kNoLayer, model::Unit::kNone, 0, flags)});
    closed.row.tokens = tokens;
    maker->OnStep(closed);
  }
  std::string Text(int bins = 10) {
    const auto text = maker->Text(bins);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *text : "";
  }

  std::unique_ptr<BandMaker> maker;
};

TEST_F(BandTest, MedianAndSpreadOfAllRunsByStep) {
  const double offsets[] = {0, 1, 5};
  for (int run = 0; run < 3; ++run) {
    Begin("run \"" + std::to_string(run) + "\"");
    Loss(10, 2 + offsets[run]);
    Loss(20, 1 + offsets[run]);
    maker->EndRun();
  }
  // Medians 3 and 2; distances 1, 0, 4 give a spread of 1.4826.
  EXPECT_EQ(Text(2),
            "version: 1\n"
            "align: step\n"
            "runs: [\"run \\\"0\\\"\", \"run \\\"1\\\"\", \"run \\\"2\\\"\"]\n"
            "series:\n"
            "  - indicator: train.loss\n"
            "    aggregate: each\n"
            "    points: [[10, 3, 1.483], [20, 2, 1.483]]\n");
}

TEST_F(BandTest, LooksAtWhatTheRulesLookAt) {
  Begin("a");
  maker->OnStep(rules::MakeStep(
      1, {rules::MakeSample("attn.delta2.relative_norm", 1, 0, model::Unit::kHead, 0),
          rules::MakeSample("attn.delta2.relative_norm", 3, 0, model::Unit::kHead, 1),
          rules::MakeSample("attn.logits.max", 7, 2, model::Unit::kHead, 4),
          rules::MakeSample("train.loss", 9, model::kNoLayer, model::Unit::kRank, 3),
          rules::MakeSample("train.grad_norm", 9)}));
  maker->EndRun();
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("  - indicator: attn.delta2.relative_norm\n"
                              "    aggregate: mean\n"
                              "    layer: 0\n"
                              "    points: [[1, 2, 0]]\n"));
  EXPECT_THAT(text, HasSubstr("  - indicator: attn.logits.max\n"
                              "    aggregate: each\n"
                              "    layer: 2\n"
                              "    unit: head\n"
                              "    unit_id: 4\n"));
  EXPECT_THAT(text, Not(HasSubstr("train.")));
  yaml::YamlDocument document("band", text);
  EXPECT_EQ(document.root().Get("series").Items().size(), 2u);
}

TEST_F(BandTest, FlaggedAndSkippedStepsAndOlderAttemptsAreLeftOut) {
  Begin("a");
  Loss(1, 5);
  Loss(2, 99);
  Loss(3, 99, model::kFlagGrid);
  model::ClosedStep skipped = rules::MakeStep(4, {rules::MakeSample("train.loss", 99)});
  skipped.row.skipped = true;
  maker->OnStep(skipped);
  maker->BeginAttempt("a", v1::ModelShape(), {.number = 2, .resume_step = 2});
  Loss(2, 4);
  maker->EndRun();
  EXPECT_THAT(Text(), HasSubstr("points: [[1, 5, 0], [2, 4, 0]]"));
  EXPECT_THAT(Text(), HasSubstr("runs: [\"a\"]"));
}

TEST_F(BandTest, TokensAreSummedOverTheLineage) {
  Use(BandMaker::Align::kTokens);
  Begin("a");
  Loss(1, 5, 0, 100);
  Loss(2, 4, 0, 100);
  maker->BeginAttempt("a", v1::ModelShape(), {.number = 2, .resume_step = 2});
  Loss(2, 3, 0, 200);
  maker->EndRun();
  EXPECT_THAT(Text(), HasSubstr("align: tokens"));
  EXPECT_THAT(Text(), HasSubstr("points: [[100, 5, 0], [300, 3, 0]]"));
}

TEST_F(BandTest, PositionsIncreaseWhateverTheBins) {
  for (int run = 0; run < 2; ++run) {
    Begin("a");
    for (int64_t step = 0; step < 100; ++step) Loss(step, static_cast<double>(step));
    maker->EndRun();
  }
  for (const int bins : {1, 3, 7, 64, 1000}) {
    const std::string text = Text(bins);
    yaml::YamlDocument document("band", text);
    const auto points = document.root().Get("series").Items()[0].Get("points").Items();
    EXPECT_LE(points.size(), static_cast<size_t>(std::min(bins, 100)));
    double last = -1;
    for (const yaml::YamlNode& point : points) {
      const double position = point.Items()[0].Double({-1e9, 1e9});
      EXPECT_GT(position, last);
      last = position;
    }
  }
}

TEST_F(BandTest, NothingAndTooMuchAreErrors) {
  EXPECT_THAT(std::string(maker->Text(10).status().message()), HasSubstr("no value"));
  Begin("a");
  for (int64_t step = 0; step < 100'000; ++step) Loss(step, 1);
  maker->EndRun();
  EXPECT_THAT(std::string(maker->Text(1'000'000).status().message()), HasSubstr("fewer bins"));
  EXPECT_TRUE(maker->Text(64).ok());
}

}  // namespace
}  // namespace foreshock::backtest
