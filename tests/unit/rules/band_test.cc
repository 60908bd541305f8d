// Bands, and the baseline `reference` that rests on them.
#include "daemon/rules/band.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/rules/reference_bands.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBand[] = R"(
version: 1
align: step
runs: [good]
series:
  - indicator: attn.delta2.entropy_ratio_l1
    aggregate: mean
    layer: 0
    points: [[100, 0.9, 0.01], [200, 0.8, 0.03]]
  - indicator: router.token_entropy_ratio
    aggregate: mean
    layer: 2
    points: [[10, 0.7, 0.1]]
  - indicator: train.rank_loss
    unit: rank
    unit_id: 3
    points: [[0, 5, 1]]
  - indicator: tensor.rms
    unit: tensor
    unit_name: act/x
    points: [[0, 2, 1]]
)";

TEST(BandTest, InterpolatesAndHoldsItsEnds) {
  std::vector<std::string> errors;
  const auto band = Band::Parse("band.yaml", kBand, &errors);
  ASSERT_THAT(errors, IsEmpty());
  EXPECT_EQ(band->align(), Band::Align::kStep);
  model::SeriesKey key;
  key.indicator = "attn.delta2.entropy_ratio_l1";
  key.layer = 0;
  const auto curve = band->Find(Input::Aggregate::kMean, key);
  ASSERT_NE(curve, nullptr);
  const struct {
    double position, median, spread;
  } kCases[] = {{-5, 0.9, 0.01},   {100, 0.9, 0.01}, {125, 0.875, 0.015},
                {150, 0.85, 0.02}, {200, 0.8, 0.03}, {1e9, 0.8, 0.03}};
  for (const auto& test : kCases) {
    EXPECT_NEAR(curve->At(test.position).median, test.median, 1e-12) << test.position;
    EXPECT_NEAR(curve->At(test.position).spread, test.spread, 1e-12) << test.position;
  }
}

TEST(BandTest, FindsSeriesByAllThatTellsThemApart) {
  std::vector<std::string> errors;
  const auto band = Band::Parse("band.yaml", kBand, &errors);
  ASSERT_THAT(errors, IsEmpty());
  const auto has = [&band](Input::Aggregate aggregate, const std::string& indicator, int32_t layer,
                           model::Unit unit, int64_t id, const std::string& name) {
    model::SeriesKey key;
    key.indicator = indicator;
    key.layer = layer;
    key.unit = unit;
    key.unit_id = id;
    key.unit_name = name;
    return band->Find(aggregate, key) != nullptr;
  };
  const auto kEach = Input::Aggregate::kEach;
  const auto kMean = Input::Aggregate::kMean;
  const std::string entropy = "attn.delta2.entropy_ratio_l1";
  EXPECT_FALSE(has(kMean, entropy, 1, model::Unit::kNone, 0, ""));
  EXPECT_FALSE(has(Input::Aggregate::kMin, entropy, 0, model::Unit::kNone, 0, ""));
  EXPECT_FALSE(has(kEach, entropy, 0, model::Unit::kHead, 0, ""));
  // One value per layer: every aggregate of it is the same.
  EXPECT_TRUE(has(kEach, "router.token_entropy_ratio", 2, model::Unit::kNone, 0, ""));
  EXPECT_TRUE(has(kEach, "train.rank_loss", model::kNoLayer, model::Unit::kRank, 3, ""));
  EXPECT_FALSE(has(kEach, "train.rank_loss", model::kNoLayer, model::Unit::kRank, 2, ""));
  EXPECT_TRUE(has(kEach, "tensor.rms", model::kNoLayer, model::Unit::kTensor, 0, "act/x"));
  EXPECT_TRUE(band->Has(kMean, entropy));
  EXPECT_FALSE(band->Has(kEach, entropy));
}

TEST(BandTest, BadFilesSayWhatIsWrongWhere) {
  const struct {
    const char* what;
    const char* text;
    std::vector<std::string> errors;
  } kCases[] = {
      {"empty",
       "",
       {"b:1:1: the key `version` is missing in the document",
        "b:1:1: the key `align` is missing in the document",
        "b:1:1: the key `series` is missing in the document"}},
      {"of another version, aligned by time, without series",
       "version: 2\nalign: time\nseries: []\n",
       {"b:1:10: `version` is 2; an integer from 1 to 1 is expected",
        "b:2:8: `align` is time; one of step, tokens is expected",
        "b:3:9: no series; at least one is expected"}},
      {"points",
       "version: 1\nalign: step\nseries:\n"
       "  - indicator: train.loss\n"
       "    points: [[1, 2], [5, 1, 1], [5, 1, 1], [6, 1, -1], x]\n"
       "  - indicator: train.lr\n"
       "    points: []\n",
       {"b:5:14: a point has 2 numbers; [position, median, spread] is expected",
        "b:5:34: the position 5 is not after 5; positions increase",
        "b:5:51: item 3 of item 4 of `points` is -1; a number of at least 0 is expected",
        "b:5:56: item 5 of `points` is x; a list is expected",
        "b:7:13: no points; at least one is expected"}},
      {"series",
       "version: 1\nalign: step\nseries:\n"
       "  - {indicator: train.los!, points: [[0, 1, 1]]}\n"
       "  - {indicator: train.loss, points: [[0, 1, 1]]}\n"
       "  - {indicator: train.loss, points: [[0, 1, 1]]}\n"
       "  - {indicator: attn.logits.max, aggregate: mean, layer: 0, unit: head, unit_id: 1, "
       "points: [[0, 1, 1]]}\n"
       "  - {indicator: attn.logits.max, layer: -1, unit: head, points: [[0, 1, 1]]}\n",
       {"b:4:17: unknown indicator train.los!; Allowed are the ids of the catalogue, train.<scalar "
        "name>, and both behind eval.",
        "b:6:5: the same series again; indicator, aggregate, layer and unit tell series apart",
        "b:7:67: `unit` is for `aggregate: each`; an aggregate is over all units",
        "b:8:5: the key `unit_id` is missing in item 5 of `series`",
        "b:8:41: `layer` is -1; an integer from 0 to 1000000 is expected"}},
  };
  for (const auto& test : kCases) {
    std::vector<std::string> errors;
    EXPECT_EQ(Band::Parse("b", test.text, &errors), nullptr) << test.what;
    EXPECT_EQ(errors, test.errors) << test.what;
  }
}

// Rule files beside a band of train.loss: 5 falling to 3 over 200 steps, spread 0.1.
class ReferenceTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_.File(name)) << text;
  }
  void WriteBand(const std::string& align) {
    Write("band.yaml", absl::StrCat("version: 1\nalign: ", align,
                                    "\nseries:\n  - indicator: train.loss\n"
                                    "    points: [[0, 5, 0.1], [200, 3, 0.1]]\n"));
  }
  std::string RuleText(const std::string& detector) {
    return absl::StrCat(
        "groups:\n  - name: g\n    rules:\n      - alert: r\n        indicator: train.loss\n"
        "        labels: {severity: info}\n        baseline: {kind: reference, file: band.yaml}\n"
        "        ",
        detector, "\n");
  }
  // What a run says whose loss is `loss(step)` for 200 steps of 1000 tokens.
  template <typename Loss>
  std::vector<std::string> Seen(const std::string& detector, const Loss& loss) {
    Write("rules.yaml", RuleText(detector));
    const auto rules = LoadRules({{dir_.File("rules.yaml")}});
    if (!rules.ok()) return {std::string(rules.status().message())};
    Evaluator evaluator(*rules, "run", v1::ModelShape());
    evaluator.BeginAttempt({.number = 1, .resume_step = std::nullopt});
    std::vector<std::string> seen;
    for (int64_t step = 0; step < 200; ++step) {
      model::ClosedStep closed = MakeStep(step, {MakeSample("train.loss", loss(step))});
      closed.row.tokens = 1000;
      for (const model::AlertRow& row : evaluator.Evaluate(closed)) {
        seen.push_back(absl::StrCat(step, " ", Text(row)));
      }
    }
    return seen;
  }

  support::TempDir dir_;
};

TEST_F(ReferenceTest, JudgesFromTheFirstSampleOn) {
  WriteBand("step");
  const auto healthy = [](int64_t step) { return 5 - 0.01 * static_cast<double>(step); };
  const auto high = [&](int64_t step) { return healthy(step) + (step < 120 ? 1 : 0); };
  for (const char* detector :
       {"relative_rise: {above: 1.15, clear: 1.1}", "robust_z: {above: 6, clear: 3}",
        "robust_z: {above: 6, clear: 3, log: true}"}) {
    EXPECT_THAT(Seen(detector, healthy), IsEmpty()) << detector;
    EXPECT_THAT(Seen(detector, high), ElementsAre("0 r firing", "120 r resolved")) << detector;
  }
  EXPECT_THAT(Seen("cusum: {above: 8, clear: 7.75}", high),
              ElementsAre("2 r firing", "136 r resolved"));
  EXPECT_THAT(Seen("level_shift: {above: 3, samples: 5}", high),
              ElementsAre("4 r firing", "122 r resolved"));
}

TEST_F(ReferenceTest, IsShownWithTheLimitsOfItsRule) {
  WriteBand("step");
  const auto band = [this](const std::string& detector) {
    Write("rules.yaml", RuleText(detector));
    const auto rules = LoadRules({{dir_.File("rules.yaml")}});
    EXPECT_OK(rules);
    EXPECT_EQ(ReferenceBands(**rules, "train.lr").bands_size(), 0);
    const v1::ListBandsResponse listed = ReferenceBands(**rules, "");
    EXPECT_EQ(listed.bands_size(), 1);
    EXPECT_EQ(listed.bands(0).points_size(), 0);
    const v1::ListBandsResponse found = ReferenceBands(**rules, "train.loss");
    EXPECT_EQ(found.bands_size(), 1);
    EXPECT_EQ(found.bands(0).rule(), "r");
    EXPECT_EQ(found.bands(0).aggregate(), "each");
    EXPECT_EQ(found.bands(0).unit(), v1::UNIT_NONE);
    EXPECT_FALSE(found.bands(0).has_layer());
    EXPECT_FALSE(found.bands(0).by_tokens());
    EXPECT_EQ(found.bands(0).points_size(), 2);
    return found.bands(0).points(0);
  };
  // At step 0: 5, spread 0.1.
  v1::BandPoint point = band("relative_rise: {above: 1.15, clear: 1.1}");
  EXPECT_DOUBLE_EQ(point.median(), 5);
  EXPECT_DOUBLE_EQ(point.spread(), 0.1);
  EXPECT_DOUBLE_EQ(point.high(), 5.75);
  EXPECT_FALSE(point.has_low());
  point = band("relative_rise: {above: 1.01, clear: 1.005, min_z: 4}");
  EXPECT_DOUBLE_EQ(point.high(), 5.4);
  point = band("robust_z: {outside: 6, clear: 3}");
  EXPECT_DOUBLE_EQ(point.high(), 5.6);
  EXPECT_DOUBLE_EQ(point.low(), 4.4);
  point = band("robust_z: {below: -6, clear: -3}");
  EXPECT_DOUBLE_EQ(point.low(), 4.4);
  EXPECT_FALSE(point.has_high());
  point = band("robust_z: {above: 6, clear: 3, log: true}");
  EXPECT_NEAR(point.high(), 5 * std::exp(6 * 0.1 / 5), 1e-12);
  point = band("cusum: {above: 8, clear: 7.75}");
  EXPECT_FALSE(point.has_low() || point.has_high());
}

TEST_F(ReferenceTest, WaitsForTheWarmUpIfItIsTold) {
  WriteBand("step");
  EXPECT_THAT(Seen("robust_z: {above: 6}\n        warm_up: skip", [](int64_t) { return 9; }),
              ElementsAre("150 r firing"));
}

TEST_F(ReferenceTest, PositionsMayBeTokens) {
  Write("band.yaml",
        "version: 1\nalign: tokens\nseries:\n  - indicator: train.loss\n"
        "    points: [[100000, 5, 0.1], [100001, 3, 0.1]]\n");
  // 100 000 tokens are reached with the hundredth step, number 99.
  EXPECT_THAT(Seen("robust_z: {above: 6}", [](int64_t) { return 4; }), ElementsAre("100 r firing"));
}

TEST_F(ReferenceTest, AMissingFileOrSeriesIsAnErrorAtItsPlace) {
  const auto loss = [](int64_t) { return 1; };
  EXPECT_THAT(
      Seen("robust_z: {above: 6}", loss),
      ElementsAre(::testing::AllOf(
          HasSubstr("rules.yaml:7:43: the band cannot be read: "),
          HasSubstr(
              "band.yaml: No such file or directory; a name that is not absolute is meant from "
              "the folder of the rule file"))));
  Write("band.yaml",
        "version: 1\nalign: step\nseries: [{indicator: train.lr, points: [[0, 1]]}]\n");
  EXPECT_THAT(Seen("robust_z: {above: 6}", loss),
              ElementsAre(HasSubstr("band.yaml:3:41: a point has 2 numbers")));
  Write("band.yaml",
        "version: 1\nalign: step\nseries: [{indicator: train.lr, points: [[0, 1, 1]]}]\n");
  EXPECT_THAT(Seen("robust_z: {above: 6}", loss),
              ElementsAre(HasSubstr("rules.yaml:7:19: the band has no series of train.loss")));
  EXPECT_THAT(Seen("robust_z: {above: 6}\n        divide_by: train.lr", loss),
              ElementsAre(HasSubstr("rules.yaml:7:19: a band knows nothing of `combine`")));
}

TEST_F(ReferenceTest, AnotherBandIsAnotherRule) {
  WriteBand("step");
  Write("rules.yaml", RuleText("robust_z: {above: 6}"));
  ASSERT_OK_AND_ASSIGN(auto first, LoadRules({{dir_.File("rules.yaml")}}));
  ASSERT_OK_AND_ASSIGN(auto same, LoadRules({{dir_.File("rules.yaml")}}));
  Evaluator evaluator(first, "run", v1::ModelShape());
  evaluator.BeginAttempt({.number = 1, .resume_step = std::nullopt});
  first.reset();
  const auto say = [&evaluator](int64_t step, double loss) {
    std::vector<std::string> seen;
    for (const model::AlertRow& row :
         evaluator.Evaluate(MakeStep(step, {MakeSample("train.loss", loss)}))) {
      seen.push_back(Text(row));
    }
    return seen;
  };
  EXPECT_THAT(say(0, 9), ElementsAre("r firing"));
  EXPECT_THAT(evaluator.ReplaceRules(same), IsEmpty());
  same.reset();
  EXPECT_THAT(say(1, 9), IsEmpty());  // goes on
  Write("band.yaml",
        "version: 1\nalign: step\nseries: [{indicator: train.loss, points: [[0, 9, 1]]}]\n");
  ASSERT_OK_AND_ASSIGN(auto changed, LoadRules({{dir_.File("rules.yaml")}}));
  EXPECT_EQ(evaluator.ReplaceRules(changed).size(), 1u);  // ends
  EXPECT_THAT(say(2, 9), IsEmpty());
}

}  // namespace
}  // namespace foreshock::rules
