// What a store keeps of a run, as a calibration.
#include "proxy/stored.h"

#include <filesystem>

#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proxy/family.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy/synthetic.h"

namespace foreshock::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoredTest : public ::testing::Test {
 protected:
  StoredTest() {
    std::filesystem::create_directory(dir_.File("model"));
    Write(MakeModel("qwen3_moe"), dir_.File("model"), 1);
    store::StoreBatch batch;
    batch.runs.emplace_back().set_name("r");
    for (uint32_t attempt = 1; attempt <= 2; ++attempt) {
      batch.attempts.push_back({.run = "r"});
      batch.attempts.back().row.set_number(attempt);
      batch.attempts.back().row.set_world_size(1);
    }
    EXPECT_OK(Writable()->Write(batch));
  }

  std::unique_ptr<store::Store> Writable() {
    auto store = store::OpenStore({.directory = dir_.File("store")});
    EXPECT_OK(store.status());
    return *std::move(store);
  }

  // Expert i with i + 1 in every one of `tokens` tokens for each i, of a layer.
  static model::CoactivationRow Chain(uint32_t layer, int64_t tokens) {
    model::CoactivationRow row;
    row.set_layer(layer);
    row.set_experts(kExperts);
    for (int i = 1; i < kExperts; ++i) {
      for (int j = 0; j < i; ++j) row.add_pair_counts(j == i - 1 ? tokens : 0);
    }
    row.set_tokens(static_cast<uint64_t>(tokens * (kExperts - 1)));
    for (int e = 0; e < kExperts; ++e) row.add_gate_mass(0.5);
    return row;
  }

  void Keep(uint32_t attempt, const model::CoactivationRow& row) {
    store::StoreBatch batch;
    batch.coactivation.push_back({.run = "r", .attempt = attempt, .row = row});
    EXPECT_OK(Writable()->Write(batch));
  }

  absl::StatusOr<Pushed> Gather(const std::string& run, std::optional<uint32_t> attempt = {}) {
    const absl::StatusOr<Families> families = Families::Builtin();
    if (!families.ok()) return families.status();
    const absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(dir_.File("model"));
    if (!checkpoint.ok()) return checkpoint.status();
    const absl::StatusOr<Model> model = Recognise(*checkpoint, *families);
    if (!model.ok()) return model.status();
    return GatherStored(dir_.File("store"), run, attempt, *model);
  }

  support::TempDir dir_;
};

TEST_F(StoredTest, TheSumsOfTheNewestAttemptThatHasSome) {
  Keep(1, Chain(0, 10));
  Keep(1, Chain(1, 20));
  ASSERT_OK_AND_ASSIGN(Pushed pushed, Gather("r"));
  EXPECT_THAT(pushed.warnings,
              ElementsAre("run 'r' has 2 attempts; the sums are those of attempt 1"));
  ASSERT_EQ(pushed.layers.size(), 2u);
  const LayerStats& stats = pushed.layers.at(1);
  EXPECT_EQ(stats.tokens, 140);
  EXPECT_EQ(stats.frequency(0), 20);
  EXPECT_EQ(stats.frequency(3), 40);
  EXPECT_EQ((*stats.coactivation)(3, 3), 40);
  EXPECT_EQ((*stats.coactivation)(3, 4), 20);
  EXPECT_EQ((*stats.coactivation)(3, 5), 0);
  EXPECT_EQ((*stats.gate_sum)(0), 0.5);
  Keep(2, Chain(0, 3));
  ASSERT_OK_AND_ASSIGN(pushed, Gather("r"));
  EXPECT_EQ(pushed.layers.at(0).tokens, 21);
  EXPECT_EQ(pushed.layers.size(), 1u);
  EXPECT_EQ(pushed.warnings[0], "layer 1: the store has no sums of RouterCoactivation");
  ASSERT_OK_AND_ASSIGN(pushed, Gather("r", 1));
  EXPECT_EQ(pushed.layers.at(0).tokens, 70);
  EXPECT_TRUE(pushed.warnings.empty());
}

TEST_F(StoredTest, WhatTheStoreLacksIsSaid) {
  EXPECT_THAT(Gather("r"),
              support::StatusIs(
                  absl::StatusCode::kNotFound,
                  HasSubstr("run 'r' has no sums of RouterCoactivation in the store: its ranks "
                            "pushed no RouterLoad either")));
  store::StoreBatch batch;
  model::ClosedStep step;
  step.run = "r";
  step.row.attempt = 1;
  step.samples.push_back({{"load.share", 0, model::Unit::kExpert, 0, ""}, 0.5, 0});
  batch.steps.push_back(step);
  EXPECT_OK(Writable()->Write(batch));
  EXPECT_THAT(Gather("r"), support::StatusIs(absl::StatusCode::kNotFound,
                                             HasSubstr("the store keeps the shares of each step")));
  Keep(1, Chain(0, 10));
  EXPECT_THAT(Gather("r", 2), support::StatusIs(absl::StatusCode::kNotFound,
                                                HasSubstr("attempt 2 of run 'r' has no sums")));
  EXPECT_THAT(Gather("nobody"), support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("r")));
}

TEST_F(StoredTest, SumsOfAnotherModelAreRefused) {
  model::CoactivationRow row = Chain(0, 10);
  row.set_experts(kExperts + 1);
  Keep(1, row);
  EXPECT_THAT(Gather("r"),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("layer 0: RouterCoactivation is of 9 experts, the "
                                          "checkpoint has 8")));
  row = Chain(0, 10);
  row.set_tokens(71);  // of another top-k
  Keep(1, row);
  EXPECT_THAT(Gather("r"),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("not those of 71 tokens with 2 experts each")));
  Keep(1, Chain(7, 10));
  Keep(1, Chain(0, 10));
  EXPECT_OK(Gather("r").status());
}

}  // namespace
}  // namespace foreshock::proxy
