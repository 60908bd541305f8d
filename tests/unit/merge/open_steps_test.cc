#include "daemon/merge/open_steps.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::merge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

model::ShardReport Report(uint32_t rank, int64_t step, bool last = true) {
  model::ShardReport report;
  report.set_rank(rank);
  report.set_step(step);
  report.set_last_of_step(last);
  return report;
}

std::vector<int64_t> Numbers(const std::vector<SettledStep>& steps) {
  std::vector<int64_t> numbers;
  for (const SettledStep& step : steps) numbers.push_back(step.row.step);
  return numbers;
}

TEST(OpenStepsTest, ClosesWhenEveryRankHasFinishedTheStep) {
  OpenSteps steps({}, 2);
  steps.Add(Report(0, 5), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  steps.Add(Report(1, 5, /*last=*/false), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  steps.Add(Report(1, 5), kStart);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart);
  ASSERT_THAT(Numbers(closed), ElementsAre(5));
  EXPECT_FALSE(closed[0].row.partial);
  EXPECT_EQ(closed[0].row.ranks, 2u);
}

TEST(OpenStepsTest, ARankThatIsPastTheStepDoesNotHoldItUp) {
  OpenSteps steps({}, 2);
  steps.Add(Report(0, 5), kStart);
  steps.Add(Report(1, 6, /*last=*/false), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(5));
}

TEST(OpenStepsTest, ClosesInStepOrder) {
  OpenSteps steps({}, 2);
  steps.Add(Report(0, 1), kStart);
  steps.Add(Report(0, 2), kStart);
  steps.Add(Report(1, 2), kStart);  // rank 1 skipped step 1: it is past it
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(1, 2));
}

TEST(OpenStepsTest, WaitsForLatenessThenGoesOnWithoutTheSilentRank) {
  OpenSteps steps({.lateness = absl::Seconds(30)}, 2);
  steps.Add(Report(0, 1), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart + absl::Seconds(29)), IsEmpty());
  std::vector<SettledStep> closed = steps.TakeSettled(kStart + absl::Seconds(30));
  ASSERT_THAT(Numbers(closed), ElementsAre(1));
  EXPECT_TRUE(closed[0].row.partial);
  EXPECT_THAT(steps.silent_ranks(), ElementsAre(1));

  steps.Add(Report(0, 2), kStart + absl::Seconds(31));
  closed = steps.TakeSettled(kStart + absl::Seconds(31));
  ASSERT_THAT(Numbers(closed), ElementsAre(2)) << "nothing waits for a silent rank";
  EXPECT_FALSE(closed[0].row.partial);

  steps.Add(Report(1, 3), kStart + absl::Seconds(32));
  EXPECT_THAT(steps.silent_ranks(), IsEmpty());
  EXPECT_THAT(steps.TakeSettled(kStart + absl::Seconds(32)), IsEmpty()) << "it is live again";
}

TEST(OpenStepsTest, AGoodbyeIsNotWaitedFor) {
  OpenSteps steps({}, 2);
  steps.Add(Report(0, 1), kStart);
  steps.RankGone(1);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart);
  ASSERT_THAT(Numbers(closed), ElementsAre(1));
  EXPECT_FALSE(closed[0].row.partial);
}

TEST(OpenStepsTest, ARankThatReturnsAfterItsGoodbyeIsWaitedForAgain) {
  OpenSteps steps({}, 2);
  steps.RankGone(1);
  steps.RankReturns(1);
  steps.Add(Report(0, 1), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  steps.Add(Report(1, 1), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(1));
}

TEST(OpenStepsTest, MergesLateReportsWhileTheStepIsKept) {
  OpenSteps steps({.lateness = absl::Seconds(1), .kept_steps = 2}, 2);
  for (int64_t step : {1, 2, 3}) steps.Add(Report(0, step), kStart);
  ASSERT_THAT(Numbers(steps.TakeSettled(kStart + absl::Seconds(1))), ElementsAre(1, 2, 3));
  steps.TakeSettled(kStart + absl::Seconds(1));
  EXPECT_EQ(steps.settled_through(), 1);

  EXPECT_EQ(steps.Add(Report(1, 1), kStart), OpenSteps::Outcome::kTooLate);
  EXPECT_EQ(steps.Add(Report(1, 2), kStart), OpenSteps::Outcome::kLate);
  const std::vector<SettledStep> changed = steps.TakeSettled(kStart + absl::Seconds(1));
  ASSERT_THAT(Numbers(changed), ElementsAre(2));
  EXPECT_TRUE(changed[0].row.late);
  EXPECT_EQ(changed[0].row.ranks, 2u);
}

TEST(OpenStepsTest, BoundsOpenSteps) {
  OpenSteps steps({.open_steps_max = 3}, 2);
  for (int64_t step : {1, 2, 3, 4}) steps.Add(Report(0, step), kStart);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart);
  ASSERT_FALSE(closed.empty());
  EXPECT_EQ(closed[0].row.step, 1);
  EXPECT_TRUE(closed[0].row.partial);
  EXPECT_THAT(steps.silent_ranks(), ElementsAre(1));
}

// After an outage ranks come back one after the other, each with all it has buffered.
TEST(OpenStepsTest, ABacklogIsMergedWholeThoughOneRankSendsItFirst) {
  OpenSteps steps({}, 2);
  for (int64_t step = 0; step < 1000; ++step) {
    steps.Add(Report(0, step), kStart);
    ASSERT_THAT(steps.TakeSettled(kStart), IsEmpty());
  }
  size_t closed = 0;
  for (int64_t step = 0; step < 1000; ++step) {
    steps.Add(Report(1, step), kStart + absl::Seconds(15));
    for (const SettledStep& settled : steps.TakeSettled(kStart + absl::Seconds(15))) {
      EXPECT_FALSE(settled.row.partial);
      EXPECT_EQ(settled.row.ranks, 2u);
      ++closed;
    }
  }
  EXPECT_EQ(closed, 1000u);
}

TEST(OpenStepsTest, BoundsBytesOfKeptSteps) {
  OpenSteps steps({.bytes_max = 4096, .kept_steps = 1000}, 1);
  for (int64_t step = 0; step < 100; ++step) {
    model::ShardReport report = Report(0, step);
    model::GateShard* gate = report.mutable_shards()->add_gates();
    for (int e = 0; e < 64; ++e) gate->add_p_sum(1);
    steps.Add(report, kStart);
    steps.TakeSettled(kStart);
  }
  EXPECT_LT(steps.bytes(), 8192u);
  EXPECT_EQ(steps.Classify(1), OpenSteps::Outcome::kTooLate);
}

TEST(OpenStepsTest, RetireEndsAnAttemptAndKeepsNothing) {
  OpenSteps steps({}, 2);
  steps.Add(Report(0, 1), kStart);
  steps.Add(Report(0, 2), kStart);
  EXPECT_THAT(Numbers(steps.Retire()), ElementsAre(1, 2));
  EXPECT_EQ(steps.open_steps(), 0u);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  EXPECT_EQ(steps.settled_through(), 2);
  EXPECT_EQ(steps.bytes(), 0u);
}

TEST(OpenStepsTest, RanksThatHaveNotSpokenTakeNoMemoryButCount) {
  constexpr uint32_t kWorld = 1u << 20;
  OpenSteps steps({.lateness = absl::Seconds(30)}, kWorld);
  EXPECT_EQ(steps.ranks_held(), 0u);
  steps.RankReturns(7);  // its Hello
  steps.Add(Report(7, 0), kStart);
  steps.Add(Report(9, 0), kStart);
  steps.RankGone(9);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  EXPECT_EQ(steps.hindmost().size(), kWorld - 2);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart + absl::Seconds(30));
  ASSERT_THAT(Numbers(closed), ElementsAre(0));
  EXPECT_TRUE(closed[0].row.partial);
  EXPECT_EQ(steps.silent_ranks().size(), kWorld - 2);
  steps.Add(Report(8, 0), kStart);  // one of the silent ones speaks after all
  EXPECT_EQ(steps.silent_ranks().size(), kWorld - 3);
  EXPECT_TRUE(steps.TakeSettled(kStart).back().row.partial);
  steps.Add(Report(7, 1), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty()) << "it is waited for again";
  steps.Add(Report(8, 1), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(1));
  EXPECT_EQ(steps.ranks_held(), 3u);
}

TEST(OpenStepsTest, GoesOnAfterARestartAsIfThereHadBeenNone) {
  OpenSteps steps({}, 2);
  steps.RestoreClosed(3, 1);
  steps.RestoreRank(0, 4, false);
  steps.RestoreRank(1, 3, false);
  steps.RestoreReport(Report(0, 3), kStart);
  steps.RestoreReport(Report(1, 3), kStart);
  steps.RestoreReport(Report(0, 4), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty()) << "3 had closed, 4 waits for rank 1";
  EXPECT_EQ(steps.Classify(1), OpenSteps::Outcome::kTooLate);
  steps.Add(Report(1, 4), kStart);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart);
  ASSERT_THAT(Numbers(closed), ElementsAre(4));
  EXPECT_EQ(closed[0].row.ranks, 2u);
}

// Rank 0 is ahead of three others, which still send what lies before its step.
TEST(OpenStepsTest, AFewRanksAheadDoNotCloseAStepOverMost) {
  OpenSteps steps({.lateness = absl::Seconds(30)}, 4);
  for (uint32_t rank = 0; rank < 4; ++rank) steps.Add(Report(rank, 0), kStart);
  steps.Add(Report(0, 50), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  for (int second = 10; second <= 300; second += 10) {
    const absl::Time now = kStart + absl::Seconds(second);
    for (uint32_t rank = 1; rank < 4; ++rank) steps.Add(Report(rank, second / 10), now);
    EXPECT_THAT(Numbers(steps.TakeSettled(now)), ElementsAre(second / 10));
    EXPECT_EQ(steps.silent_count(), 0u);
  }
  // When they fall silent the step closes without them.
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart + absl::Seconds(400))), ElementsAre(50));
  EXPECT_EQ(steps.silent_count(), 3u);
}

TEST(OpenStepsTest, AStepThatIsTooFarAheadIsNotTakenAndHoldsNothingUp) {
  OpenSteps steps({.gate = {.ahead_max = 1000}}, 2);
  for (int64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(steps.Add(Report(0, step), kStart), OpenSteps::Outcome::kOpen);
    EXPECT_EQ(steps.Add(Report(1, step), kStart), OpenSteps::Outcome::kOpen);
    EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(step));
    EXPECT_EQ(steps.Add(Report(1, int64_t{1} << 53), kStart), OpenSteps::Outcome::kTooFar);
  }
  steps.Add(Report(0, 10), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty()) << "rank 1 is waited for";
  EXPECT_EQ(steps.open_steps(), 1u);
}

TEST(OpenStepsTest, AFirstReportThatWasWrongLeavesNothing) {
  OpenSteps steps({.gate = {.ahead_max = 1000}}, 2);
  EXPECT_EQ(steps.Add(Report(1, int64_t{1} << 53), kStart), OpenSteps::Outcome::kOpen);
  EXPECT_EQ(steps.Add(Report(0, 0), kStart), OpenSteps::Outcome::kOpen);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  EXPECT_EQ(steps.open_steps(), 0u);
  steps.Add(Report(0, 1), kStart + absl::Minutes(10));
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart + absl::Minutes(20))), ElementsAre(1));
}

model::ShardReport Gates(uint32_t rank, int64_t step, uint64_t source) {
  model::ShardReport report = Report(rank, step, /*last=*/false);
  model::GateShard* gate = report.mutable_shards()->add_gates();
  gate->set_layer(static_cast<uint32_t>(source));
  gate->add_sources()->set_id(source);
  for (int e = 0; e < 64; ++e) gate->add_p_sum(1);
  return report;
}

TEST(OpenStepsTest, BoundsWhatARankHoldsOfOpenStepsAndTheOthersGoOn) {
  constexpr size_t kRankBytes = 100'000;
  OpenSteps steps({.rank_bytes_max = kRankBytes}, 2);
  steps.Add(Gates(1, 0, 1), kStart);
  const size_t one = steps.bytes();
  size_t taken = 1;
  for (uint64_t source = 2; source < 2000; ++source) {
    const OpenSteps::Outcome outcome = steps.Add(Gates(1, 0, source), kStart);
    if (outcome == OpenSteps::Outcome::kOpen) ++taken;
  }
  EXPECT_LE(steps.bytes(), kRankBytes + one);
  EXPECT_GE(steps.bytes(), kRankBytes);
  EXPECT_LT(taken, 2000u / 2);
  EXPECT_EQ(steps.Add(Gates(0, 0, 5000), kStart), OpenSteps::Outcome::kOpen);
  // It has finished the step although that report is not taken, and then has room again.
  EXPECT_EQ(steps.Add(Report(0, 0), kStart), OpenSteps::Outcome::kOpen);
  EXPECT_EQ(steps.Add(Report(1, 0), kStart), OpenSteps::Outcome::kNoRoom);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  EXPECT_EQ(steps.Add(Gates(1, 1, 1), kStart), OpenSteps::Outcome::kOpen);
}

TEST(OpenStepsTest, WithoutRoomOnlyProgressCounts) {
  OpenSteps steps({}, 2);
  EXPECT_EQ(steps.Add(Gates(0, 0, 1), kStart, /*room=*/false), OpenSteps::Outcome::kNoRoom);
  EXPECT_EQ(steps.bytes(), 0u);
  EXPECT_EQ(steps.Add(Report(1, 0), kStart), OpenSteps::Outcome::kOpen);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  EXPECT_EQ(steps.Add(Report(0, 0), kStart, /*room=*/false), OpenSteps::Outcome::kNoRoom);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
}

TEST(OpenStepsTest, ARestartDoesNotBringBackAStepThatWasTooFar) {
  OpenSteps steps({}, 2);
  steps.RestoreClosed(3, 3);
  steps.RestorePace(0, 4);
  steps.RestoreRank(0, 3, false);
  steps.RestoreRank(1, int64_t{1} << 53, false);
  steps.RestoreReport(Report(1, int64_t{1} << 53), kStart);
  EXPECT_EQ(steps.open_steps(), 0u);
  steps.Add(Report(0, 4), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(4));
}

}  // namespace
}  // namespace foreshock::merge
