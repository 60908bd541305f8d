// Stored steps come back, block by block, as they were judged.
#include "daemon/store/step_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"

namespace foreshock::store {
namespace {

using ::testing::ElementsAre;

model::SeriesKey Key(const std::string& indicator, int32_t layer = model::kNoLayer) {
  model::SeriesKey key;
  key.indicator = indicator;
  key.layer = layer;
  return key;
}

// 3 000 steps, numbered by threes, over two attempts; more than a block of the reader.
class StepReaderTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSteps = 3000;
  static constexpr int64_t kResume = 2000;  // of them

  void SetUp() override {
    StoreBatch batch;
    model::RunRow run;
    run.set_name("run");
    batch.runs.push_back(run);
    for (const uint32_t number : {1u, 2u}) {
      model::AttemptRow attempt;
      attempt.set_number(number);
      attempt.set_first_step(number == 1 ? 0 : 3 * kResume);
      attempt.set_last_step(3 * (number == 1 ? kResume + 10 : kSteps - 1));
      batch.attempts.push_back({"run", attempt});
    }
    for (int64_t i = 0; i < kResume + 10; ++i) batch.steps.push_back(Step(1, 3 * i));
    for (int64_t i = kResume; i < kSteps; ++i) batch.steps.push_back(Step(2, 3 * i));
    model::EventRow event;
    event.set_attempt(2);
    event.mutable_event()->set_step(7500);
    event.mutable_event()->set_name("note");
    batch.events.push_back({"run", event});
    event.set_attempt(1);  // of steps that were run again, without it
    event.mutable_event()->set_step(3 * (kResume + 1));
    batch.events.push_back({"run", event});
    event.mutable_event()->set_step(0);  // declared behind time, in force later
    event.set_in_force_attempt(2);
    event.set_in_force_step(7503);
    batch.events.push_back({"run", event});
    event.mutable_event()->set_step(7506);
    event.clear_in_force_step();
    event.set_waits(true);
    batch.events.push_back({"run", event});
    ASSERT_OK(store_->Write(batch));
  }

  static model::ClosedStep Step(uint32_t attempt, int64_t step) {
    model::ClosedStep closed;
    closed.run = "run";
    closed.row.attempt = attempt;
    closed.row.step = step;
    const double value = static_cast<double>(step) + 0.5 * attempt;
    closed.samples = {{Key("load.entropy", 1), value, 0}, {Key("train.loss"), value, 0}};
    return closed;
  }

  std::unique_ptr<Store> store_ = support::NewMemoryStore();
};

TEST_F(StepReaderTest, VisitsTheLineageInOrderWithPointsAndEvents) {
  int64_t expected = 0;
  std::vector<int64_t> events;
  ASSERT_OK(ReadClosedSteps(*store_, "run", {}, [&](const model::ClosedStep& step) {
    EXPECT_EQ(step.row.step, 3 * expected);
    EXPECT_EQ(step.row.attempt, expected < kResume ? 1u : 2u);
    EXPECT_EQ(step.samples.size(), 2u);
    for (const model::Sample& sample : step.samples) {
      EXPECT_EQ(sample.value, static_cast<double>(step.row.step) + 0.5 * step.row.attempt);
    }
    events.insert(events.end(), step.events.size(), step.row.step);
    ++expected;
    return !::testing::Test::HasFailure();
  }));
  EXPECT_EQ(expected, kSteps);
  EXPECT_THAT(events, ElementsAre(7500, 7503));
}

TEST_F(StepReaderTest, ReadsTheSeriesThatAreWantedAndTheRangeAndStopsWhenTold) {
  std::vector<int64_t> steps;
  ASSERT_OK(ReadClosedSteps(
      *store_, "run", {.first = 5990, .last = 7000},
      [&](const model::ClosedStep& step) {
        EXPECT_EQ(step.samples.size(), 1u);
        EXPECT_EQ(step.samples[0].series.indicator, "train.loss");
        steps.push_back(step.row.step);
        return steps.size() < 4;
      },
      [](const model::SeriesKey& series) { return series.indicator == "train.loss"; }));
  EXPECT_THAT(steps, ElementsAre(5991, 5994, 5997, 6000));
}

TEST_F(StepReaderTest, AnUnknownRunIsNotFound) {
  EXPECT_THAT(ReadClosedSteps(*store_, "other", {}, [](const model::ClosedStep&) { return true; }),
              support::StatusIs(absl::StatusCode::kNotFound, ::testing::_));
}

}  // namespace
}  // namespace foreshock::store
