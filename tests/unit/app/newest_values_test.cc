#include "daemon/app/newest_values.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/exporter/snapshot_builder.h"
#include "tests/support/fake_clock.h"
#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"

namespace foreshock::app {
namespace {

using ::testing::ElementsAre;

model::Sample HeadValue(int32_t layer, int64_t head, double value) {
  return {{"attn.entropy_ratio", layer, model::Unit::kHead, head, ""}, value};
}
model::Sample Loss(double value) {
  return {{"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""}, value};
}
model::ClosedStep StepOf(uint32_t attempt, int64_t step, std::vector<model::Sample> samples) {
  model::ClosedStep closed;
  closed.run = "a";
  closed.row = {.attempt = attempt, .step = step, .time_unix_ns = 1000 * step, .ranks = 8};
  closed.samples = std::move(samples);
  return closed;
}

// A run of two attempts in a store.
class NewestValuesTest : public ::testing::Test {
 protected:
  void Close(uint32_t attempt, int64_t step, std::vector<model::Sample> samples) {
    store::StoreBatch batch;
    model::RunRow run;
    run.set_name("a");
    batch.runs.push_back(run);
    model::AttemptRow row;
    row.set_number(attempt);
    batch.attempts.push_back({"a", row});
    batch.steps.push_back(StepOf(attempt, step, std::move(samples)));
    ASSERT_OK(store_->Write(batch));
  }
  // "step: indicator/layer/unit=value ..."
  std::vector<std::string> Newest(uint32_t attempt, int64_t last) {
    const auto steps = NewestValues(*store_, "a", attempt, last);
    EXPECT_OK(steps.status());
    std::vector<std::string> texts;
    for (const model::ClosedStep& step : *steps) {
      std::string text = absl::StrCat(step.row.step, ":");
      for (const model::Sample& sample : step.samples) {
        absl::StrAppend(&text, " ", sample.series.indicator, "/", sample.series.layer, "/",
                        sample.series.unit_id, "=", sample.value);
      }
      texts.push_back(text);
    }
    return texts;
  }

  const std::unique_ptr<store::Store> store_ = support::NewMemoryStore();
};

TEST_F(NewestValuesTest, EachValueComesFromTheNewestStepThatHasIt) {
  Close(1, 100, {Loss(5), HeadValue(0, 0, 0.5), HeadValue(0, 1, 0.6), HeadValue(1, 0, 0.7)});
  Close(1, 150, {Loss(4), HeadValue(0, 0, 0.4)});  // head 1 is not sampled any more
  Close(1, 151, {Loss(3)});
  EXPECT_THAT(Newest(1, 151),
              ElementsAre("100: attn.entropy_ratio/1/0=0.7", "150: attn.entropy_ratio/0/0=0.4",
                          "151: train.loss/-1/0=3"));
  const auto steps = NewestValues(*store_, "a", 1, 151);
  ASSERT_OK(steps.status());
  EXPECT_EQ(steps->back().row.ranks, 8u);
  EXPECT_EQ(steps->back().row.time_unix_ns, 151'000);
  EXPECT_EQ(steps->back().run, "a");
}

TEST_F(NewestValuesTest, LooksBackAsFarAsItSaysAndIntoNoOtherAttempt) {
  constexpr int64_t kLast = 100'000;
  Close(1, kLast - 5, {HeadValue(3, 0, 0.3)});
  Close(2, kLast - kNewestValuesSteps, {HeadValue(0, 0, 0.1)});
  Close(2, kLast - kNewestValuesSteps + 1, {HeadValue(1, 0, 0.2)});
  Close(2, kLast, {Loss(3)});
  EXPECT_THAT(Newest(2, kLast),
              ElementsAre("67233: attn.entropy_ratio/1/0=0.2", "100000: train.loss/-1/0=3"));
}

TEST_F(NewestValuesTest, ARestoredSnapshotShowsWhatTheOneBeforeShowed) {
  support::FakeClock clock;
  exporter::SnapshotBuilder before({}, &clock);
  exporter::SnapshotBuilder after({}, &clock);
  const auto close = [&](int64_t step, std::vector<model::Sample> samples) {
    Close(1, step, samples);
    before.Observe(StepOf(1, step, std::move(samples)));
  };
  // Values that the store keeps exactly.
  close(100, {Loss(5), HeadValue(0, 0, 0.5), HeadValue(0, 1, 0.625), HeadValue(1, 0, 0.75)});
  close(101, {Loss(4), HeadValue(0, 0, 0.125), HeadValue(0, 1, 0.25)});
  close(102, {Loss(3)});
  const auto steps = NewestValues(*store_, "a", 1, 102);
  ASSERT_OK(steps.status());
  after.SetRun({.run = "a"});
  for (const model::ClosedStep& step : *steps) after.Restore(step);
  before.Publish();
  after.Publish();
  const exporter::RunSnapshot& was = *before.Latest()->runs[0];
  const exporter::RunSnapshot& is = *after.Latest()->runs[0];
  EXPECT_TRUE(is.has_step);
  EXPECT_EQ(is.last_step, was.last_step);
  EXPECT_EQ(is.ranks_in_step, was.ranks_in_step);
  EXPECT_EQ(absl::ToUnixNanos(is.last_update), 102'000);
  EXPECT_EQ(is.steps_closed, 0u);  // counted since the start
  ASSERT_EQ(is.indicators.size(), was.indicators.size());
  for (const auto& [id, indicator] : was.indicators) {
    const exporter::IndicatorSnapshot& restored = is.indicators.at(id);
    EXPECT_EQ(restored.last_step, indicator.last_step) << id;
    EXPECT_EQ(restored.valid, indicator.valid) << id;
    ASSERT_EQ(restored.layers.size(), indicator.layers.size()) << id;
    for (size_t i = 0; i < indicator.layers.size(); ++i) {
      EXPECT_EQ(restored.layers[i].layer, indicator.layers[i].layer);
      EXPECT_EQ(restored.layers[i].units, indicator.layers[i].units);
      EXPECT_EQ(restored.layers[i].mean, indicator.layers[i].mean);
    }
  }
}

TEST_F(NewestValuesTest, ARunThatIsNotThereIsAnError) {
  EXPECT_EQ(NewestValues(*store_, "none", 1, 5).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace foreshock::app
