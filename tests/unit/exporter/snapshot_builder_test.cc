#include "daemon/exporter/snapshot_builder.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/unit/exporter/pages.h"

namespace foreshock::exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class SnapshotBuilderTest : public ::testing::Test {
 protected:
  const RunSnapshot& Only() {
    builder_.Publish();
    latest_ = builder_.Latest();
    EXPECT_EQ(latest_->runs.size(), 1u);
    return *latest_->runs.at(0);
  }

  support::FakeClock clock_;
  SnapshotBuilder builder_{{.top_k = 2, .nonfinite_max = 2, .undefined_max = 2}, &clock_};
  std::shared_ptr<const Snapshot> latest_;
};

TEST_F(SnapshotBuilderTest, IsEmptyAndNotNullBeforeAnything) {
  ASSERT_NE(builder_.Latest(), nullptr);
  EXPECT_TRUE(builder_.Latest()->runs.empty());
}

TEST_F(SnapshotBuilderTest, ReducesTheUnitsOfALayer) {
  struct Case {
    std::vector<double> values;
    double min, p10, mean, max;
  };
  const Case cases[] = {
      {{3}, 3, 3, 3, 3},
      {{4, 2}, 2, 2.2, 3, 4},
      {{10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 0, 1, 5, 10},
      {{-1, -1, -1}, -1, -1, -1, -1},
      {{1e308, 1e308}, 1e308, 1e308, 1e308, 1e308},  // their sum overflows
  };
  for (const Case& c : cases) {
    std::vector<model::Sample> samples;
    for (size_t i = 0; i < c.values.size(); ++i) {
      samples.push_back(
          MakeSample("load.share", 5, model::Unit::kExpert, static_cast<int64_t>(i), c.values[i]));
    }
    builder_.Observe(MakeStep("a", 1, samples));
    const LayerValues got = Only().indicators.at("load.share").layers.at(0);
    EXPECT_EQ(got.layer, 5);
    EXPECT_EQ(got.units, c.values.size());
    EXPECT_EQ(got.min, c.min);
    EXPECT_DOUBLE_EQ(got.p10, c.p10);
    EXPECT_DOUBLE_EQ(got.mean, c.mean);
    EXPECT_EQ(got.max, c.max);
  }
}

TEST_F(SnapshotBuilderTest, AgreesWithASortedReference) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t n = 1 + random() % 300;
    std::vector<double> values(n);
    for (double& value : values) value = std::normal_distribution<double>()(random);
    std::vector<model::Sample> samples;
    for (size_t i = 0; i < n; ++i) {
      samples.push_back(
          MakeSample("load.share", 0, model::Unit::kExpert, static_cast<int64_t>(i), values[i]));
    }
    builder_.Observe(MakeStep("a", trial, samples));
    std::sort(values.begin(), values.end());
    const double rank = 0.1 * static_cast<double>(n - 1);
    const auto low = static_cast<size_t>(std::floor(rank));
    const auto high = static_cast<size_t>(std::ceil(rank));
    const double p10 = values[low] + (rank - std::floor(rank)) * (values[high] - values[low]);
    double sum = 0;
    for (const double value : values) sum += value;
    const RunSnapshot& run = Only();
    const IndicatorSnapshot& got = run.indicators.at("load.share");
    EXPECT_EQ(got.layers[0].min, values.front());
    EXPECT_EQ(got.layers[0].max, values.back());
    EXPECT_DOUBLE_EQ(got.layers[0].p10, p10);
    // n roundings of terms below 6/n each, in either order of summing.
    EXPECT_NEAR(got.layers[0].mean, sum / static_cast<double>(n), 6 * 2.3e-16 * double(n));
    ASSERT_EQ(got.offenders.size(), 2 * std::min<size_t>(n, 2));
    EXPECT_EQ(got.offenders[0].value, values.back());
    EXPECT_EQ(got.offenders.back().value, values[std::min<size_t>(n, 2) - 1]);
  }
}

TEST_F(SnapshotBuilderTest, NamesTheMostExtremeUnitsOfBothSides) {
  builder_.Observe(MakeStep("a", 1,
                            {MakeSample("load.share", 0, model::Unit::kExpert, 0, 1.0),
                             MakeSample("load.share", 0, model::Unit::kExpert, 1, 7.0),
                             MakeSample("load.share", 0, model::Unit::kExpert, 2, 0.5),
                             MakeSample("load.share", 0, model::Unit::kExpert, 3, 7.0)}));
  std::vector<std::pair<bool, int64_t>> got;
  for (const Offender& o : Only().indicators.at("load.share").offenders) {
    got.emplace_back(o.top, o.unit_id);
  }
  EXPECT_THAT(got, ElementsAre(Pair(true, 1), Pair(true, 3), Pair(false, 2), Pair(false, 0)));
}

TEST_F(SnapshotBuilderTest, OlderAndLateStepsDoNotReplaceNewerValues) {
  const auto loss = [&] { return Only().indicators.at("train.loss").layers.at(0).mean; };
  builder_.Observe(
      MakeStep("a", 10, {MakeSample("train.loss", model::kNoLayer, model::Unit::kNone, 0, 3)}));
  builder_.Observe(
      MakeStep("a", 9, {MakeSample("train.loss", model::kNoLayer, model::Unit::kNone, 0, 4)}));
  EXPECT_EQ(loss(), 3);
  model::ClosedStep late =
      MakeStep("a", 10, {MakeSample("train.loss", model::kNoLayer, model::Unit::kNone, 0, 3.5)});
  late.row.late = true;
  late.undefined.push_back({"attn.delta2", "no_base", 1});
  builder_.Observe(late);
  EXPECT_EQ(loss(), 3.5);  // the same step, with one more shard
  EXPECT_EQ(Only().steps_closed, 2u);
  EXPECT_EQ(Only().steps_late, 1u);
  EXPECT_EQ(Only().tokens, 200u);
  EXPECT_TRUE(latest_->undefined.empty());
  EXPECT_EQ(Only().last_step, 10);
}

TEST_F(SnapshotBuilderTest, ANewAttemptStartsOverAtAnEarlierStep) {
  builder_.Observe(MakeStep("a", 10,
                            {MakeSample("train.loss", model::kNoLayer, model::Unit::kNone, 0, 3),
                             MakeSample("train.lr", model::kNoLayer, model::Unit::kNone, 0, 1)}));
  builder_.Observe(
      MakeStep("a", 5, {MakeSample("train.loss", model::kNoLayer, model::Unit::kNone, 0, 4)}, 2));
  EXPECT_EQ(Only().last_step, 5);
  EXPECT_EQ(Only().attempts, 2u);
  EXPECT_EQ(Only().indicators.count("train.lr"), 0u);
  builder_.Observe(
      MakeStep("a", 11, {MakeSample("train.loss", model::kNoLayer, model::Unit::kNone, 0, 9)}, 1));
  EXPECT_EQ(Only().last_step, 5);
  EXPECT_EQ(Only().indicators.at("train.loss").layers.at(0).mean, 4);
}

TEST_F(SnapshotBuilderTest, LayersThatRotateKeepTheirNewestValue) {
  builder_.Observe(MakeStep("a", 1, {MakeSample("load.cv", 3, model::Unit::kNone, 0, 0.3)}));
  builder_.Observe(MakeStep("a", 2, {MakeSample("load.cv", 1, model::Unit::kNone, 0, 0.1)}));
  builder_.Observe(MakeStep("a", 3, {MakeSample("load.cv", 3, model::Unit::kNone, 0, 0.4)}));
  const auto& layers = Only().indicators.at("load.cv").layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].layer, 1);
  EXPECT_EQ(layers[0].mean, 0.1);
  EXPECT_EQ(layers[1].mean, 0.4);
}

TEST_F(SnapshotBuilderTest, ValidityFollowsFlagsAndUndefinedFamilies) {
  const auto valid = [&](const char* id) { return Only().indicators.at(id).valid; };
  const auto step = [&](int64_t n, uint32_t flags, const char* undefined) {
    model::ClosedStep closed =
        MakeStep("a", n,
                 {MakeSample("attn.delta2.norm", 0, model::Unit::kHead, 0, 1),
                  MakeSample("attn.delta2.norm", 1, model::Unit::kHead, 0, 1, flags),
                  MakeSample("attn.delta.norm_ratio", 0, model::Unit::kHead, 0, 1)});
    if (undefined != nullptr) closed.undefined.push_back({undefined, "zero_update", 2});
    builder_.Observe(closed);
  };
  step(1, 0, nullptr);
  EXPECT_TRUE(valid("attn.delta2.norm"));
  step(2, model::kFlagSampled, nullptr);
  EXPECT_TRUE(valid("attn.delta2.norm"));
  step(3, model::kFlagGrid, nullptr);
  EXPECT_FALSE(valid("attn.delta2.norm"));
  EXPECT_TRUE(valid("attn.delta.norm_ratio"));
  step(4, 0, "attn.delta2");
  EXPECT_FALSE(valid("attn.delta2.norm"));
  EXPECT_TRUE(valid("attn.delta.norm_ratio"));  // "attn.delta2" is another family
  step(5, 0, "attn.delta");
  EXPECT_TRUE(valid("attn.delta2.norm"));
  EXPECT_FALSE(valid("attn.delta.norm_ratio"));
}

TEST_F(SnapshotBuilderTest, CountsFindingsAndUndefinedWithinBounds) {
  model::ClosedStep step = MakeStep("a", 1, {});
  step.findings = {{model::Finding::Kind::kNonFinite, "loss", 3, model::kNoLayer, -1, 2},
                   {model::Finding::Kind::kNonFinite, "loss", 4, model::kNoLayer, -1, 1},
                   {model::Finding::Kind::kNonFinite, "grad/x", 4, model::kNoLayer, -1, 5},
                   {model::Finding::Kind::kNonFinite, "loss", 3, model::kNoLayer, -1, 2},
                   {model::Finding::Kind::kReplicaMismatch, "qk_factors.q", 1, 0, 0, 1}};
  step.undefined = {{"attn.delta2", "no_base", 3},
                    {"load.cv", "unknown_shape", 1},
                    {"rl.k1", "no_pairs", 1},
                    {"attn.delta2", "no_base", 1}};
  builder_.Observe(step);
  EXPECT_THAT(Only().nonfinite,
              UnorderedElementsAre(Pair(Pair("loss", "3"), 4u), Pair(Pair("loss", "4"), 1u),
                                   Pair(Pair("other", "other"), 5u)));
  EXPECT_EQ(Only().replica_mismatches, 1u);
  EXPECT_THAT(latest_->undefined, UnorderedElementsAre(Pair(Pair("attn.delta2", "no_base"), 4u),
                                                       Pair(Pair("load.cv", "unknown_shape"), 1u),
                                                       Pair(Pair("other", "other"), 1u)));
}

TEST_F(SnapshotBuilderTest, AlertsOfOneRuleFireUntilTheLastOneResolves) {
  const auto set = [&](const char* id, const char* severity, v1::AlertState state) {
    v1::Alert alert;
    alert.set_id(id);
    alert.set_run("a");
    alert.set_rule("EntropyFalls");
    alert.set_severity(severity);
    alert.set_fault("unknown");
    alert.set_state(state);
    builder_.SetAlert(alert);
  };
  const auto firing = [&](const char* severity) {
    return Only().alerts.at({"EntropyFalls", severity, "unknown"}).size();
  };
  set("layer0", "warning", v1::ALERT_STATE_PENDING);
  EXPECT_EQ(firing("warning"), 0u);
  set("layer0", "warning", v1::ALERT_STATE_FIRING);
  set("layer1", "warning", v1::ALERT_STATE_FIRING);
  EXPECT_EQ(firing("warning"), 2u);
  set("layer0", "critical", v1::ALERT_STATE_FIRING);  // rose
  EXPECT_EQ(firing("warning"), 1u);
  EXPECT_EQ(firing("critical"), 1u);
  set("layer0", "critical", v1::ALERT_STATE_RESOLVED);
  set("layer1", "warning", v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(firing("warning"), 0u);  // and both are still shown
  EXPECT_EQ(firing("critical"), 0u);
}

TEST_F(SnapshotBuilderTest, RunsLeaveSomeTimeAfterTheirEnd) {
  struct Case {
    v1::RunState state;
    absl::Duration stay;
  };
  for (const Case& c : {Case{v1::RUN_STATE_FINISHED, absl::Minutes(15)},
                        Case{v1::RUN_STATE_FAILED, absl::Minutes(15)},
                        Case{v1::RUN_STATE_PREEMPTED, absl::Minutes(15)},
                        Case{v1::RUN_STATE_SILENT, absl::Hours(24)}}) {
    const auto shown = [&] {
      builder_.Publish();
      return builder_.Latest()->runs.size();
    };
    builder_.SetRun({.run = "a", .state = v1::RUN_STATE_LIVE});
    clock_.Advance(absl::Hours(100));
    EXPECT_EQ(shown(), 1u) << "a live run stays";
    builder_.SetRun({.run = "a", .state = c.state});
    clock_.Advance(c.stay - absl::Seconds(1));
    builder_.SetRun({.run = "a", .state = c.state});  // saying it again starts nothing anew
    EXPECT_EQ(shown(), 1u);
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(shown(), 0u) << v1::RunState_Name(c.state);
  }
}

TEST_F(SnapshotBuilderTest, ARunThatComesBackStays) {
  builder_.SetRun({.run = "a", .state = v1::RUN_STATE_FAILED});
  clock_.Advance(absl::Minutes(10));
  builder_.SetRun({.run = "a", .state = v1::RUN_STATE_LIVE, .attempt = 2});
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(Only().attempts, 2u);
}

TEST_F(SnapshotBuilderTest, KeepsTheNewestRunsUpToTheLimit) {
  SnapshotBuilder builder({.runs_max = 2}, &clock_);
  for (const char* run : {"a", "b", "c"}) {
    clock_.Advance(absl::Seconds(1));
    builder.Observe(MakeStep(run, 1, {}));
  }
  builder.Publish();
  ASSERT_EQ(builder.Latest()->runs.size(), 2u);
  EXPECT_EQ(builder.Latest()->runs[0]->run, "c");
  EXPECT_EQ(builder.Latest()->runs[1]->run, "b");
  builder.RemoveRun("c");
  builder.Publish();
  EXPECT_EQ(builder.Latest()->runs.size(), 1u);
}

TEST_F(SnapshotBuilderTest, APublishedSnapshotNeverChanges) {
  builder_.Observe(MakeStep("a", 1, {}));
  builder_.Observe(MakeStep("b", 1, {}));
  builder_.Publish();
  const std::shared_ptr<const Snapshot> before = builder_.Latest();
  builder_.Observe(MakeStep("a", 2, {}));
  builder_.Publish();
  for (const auto& run : before->runs) EXPECT_EQ(run->last_step, 1);
  // What did not change is shared, not copied.
  const auto find = [](const Snapshot& snapshot, const char* name) {
    return *std::find_if(snapshot.runs.begin(), snapshot.runs.end(),
                         [&](const auto& run) { return run->run == name; });
  };
  EXPECT_EQ(find(*builder_.Latest(), "b"), find(*before, "b"));
  EXPECT_NE(find(*builder_.Latest(), "a"), find(*before, "a"));
}

}  // namespace
}  // namespace foreshock::exporter
