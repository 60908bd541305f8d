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
  EXPECT_EQ(steps.open_steps(), 0u);
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

// Step 1 of three ranks, closed after a second without ranks 1 and 2.
OpenSteps WithAPartialStep() {
  OpenSteps steps({.lateness = absl::Seconds(1)}, 3);
  steps.Add(Report(0, 1), kStart);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart + absl::Seconds(1));
  EXPECT_THAT(Numbers(closed), ElementsAre(1));
  EXPECT_TRUE(closed.at(0).row.partial);
  EXPECT_FALSE(closed.at(0).row.late);
  return steps;
}

TEST(OpenStepsTest, ALateReportThatCompletesAStepMakesItWhole) {
  OpenSteps steps = WithAPartialStep();
  const auto row_after = [&steps](const model::ShardReport& report) {
    EXPECT_EQ(steps.Add(report, kStart), OpenSteps::Outcome::kLate);
    const std::vector<SettledStep> changed = steps.TakeSettled(kStart);
    EXPECT_THAT(Numbers(changed), ElementsAre(1));
    EXPECT_TRUE(changed.at(0).row.late);
    return changed.at(0).row;
  };
  EXPECT_TRUE(row_after(Report(1, 1, /*last=*/false)).partial) << "rank 1 has more to say";
  EXPECT_TRUE(row_after(Report(1, 1)).partial) << "rank 2 has not spoken";
  const model::StepRow whole = row_after(Report(2, 1));
  EXPECT_FALSE(whole.partial);
  EXPECT_EQ(whole.ranks, 3u);
  EXPECT_FALSE(row_after(Report(2, 1)).partial) << "said again, it stays whole";
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty()) << "nothing is new";
}

TEST(OpenStepsTest, ALateReportCompletesAStepThatTheOthersHaveLeft) {
  OpenSteps gone = WithAPartialStep();
  gone.RankGone(2);
  gone.Add(Report(1, 1), kStart);
  EXPECT_FALSE(gone.TakeSettled(kStart).at(0).row.partial);

  OpenSteps past = WithAPartialStep();
  past.Add(Report(2, 2, /*last=*/false), kStart);
  past.Add(Report(1, 1), kStart);
  EXPECT_FALSE(past.TakeSettled(kStart).at(0).row.partial);
}

TEST(OpenStepsTest, AStepThatWasWholeStaysWholeWhateverComesLate) {
  OpenSteps steps({}, 2);
  steps.Add(Report(0, 1), kStart);
  steps.RankGone(1);
  EXPECT_FALSE(steps.TakeSettled(kStart).at(0).row.partial);
  steps.RankReturns(1);
  steps.Add(Report(1, 1, /*last=*/false), kStart);
  EXPECT_FALSE(steps.TakeSettled(kStart).at(0).row.partial);
}

TEST(OpenStepsTest, ReportsAreClassedByTheStepsThatAreKept) {
  OpenSteps steps({.kept_steps = 3}, 1);
  EXPECT_EQ(steps.Classify(-100), OpenSteps::Outcome::kOpen) << "nothing has closed";
  steps.Add(Report(0, 10), kStart);
  steps.TakeSettled(kStart);
  EXPECT_EQ(steps.last_closed(), 10);
  EXPECT_EQ(steps.settled_through(), std::nullopt);
  EXPECT_EQ(steps.Classify(11), OpenSteps::Outcome::kOpen);
  EXPECT_EQ(steps.Classify(10), OpenSteps::Outcome::kLate);
  EXPECT_EQ(steps.Classify(8), OpenSteps::Outcome::kLate);
  EXPECT_EQ(steps.Classify(7), OpenSteps::Outcome::kTooLate);
  EXPECT_EQ(steps.Add(Report(0, 7), kStart), OpenSteps::Outcome::kTooLate);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  // A step that nobody had spoken of may come late as well.
  EXPECT_EQ(steps.Add(Report(0, 8), kStart), OpenSteps::Outcome::kLate);
  EXPECT_EQ(steps.open_steps(), 0u);
  const std::vector<SettledStep> changed = steps.TakeSettled(kStart);
  EXPECT_THAT(Numbers(changed), ElementsAre(8));
  EXPECT_EQ(steps.last_closed(), 10);
  EXPECT_EQ(steps.open_steps(), 0u);
}

TEST(OpenStepsTest, StepsAreKeptUntilTheyAreOutOfReach) {
  OpenSteps steps({.kept_steps = 3}, 1);
  for (int64_t step = 0; step < 6; ++step) {
    steps.Add(Report(0, step), kStart);
    EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(step));
  }
  steps.TakeSettled(kStart);
  EXPECT_EQ(steps.settled_through(), 2);
  EXPECT_EQ(steps.Classify(3), OpenSteps::Outcome::kLate);
  EXPECT_EQ(steps.Classify(2), OpenSteps::Outcome::kTooLate);
}

TEST(OpenStepsTest, WhatComesLateIsToldBeforeItsStepIsForgotten) {
  OpenSteps steps({.bytes_max = 1, .kept_steps = 100}, 1);
  steps.Add(Report(0, 1), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(1));
  EXPECT_EQ(steps.Add(Report(0, 1), kStart), OpenSteps::Outcome::kLate);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(1));
  EXPECT_GT(steps.bytes(), 0u);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  EXPECT_EQ(steps.bytes(), 0u) << "forgotten for its bytes";
  EXPECT_EQ(steps.Add(Report(0, 1), kStart), OpenSteps::Outcome::kTooLate);
}

TEST(OpenStepsTest, BytesAreThoseOfTheMergedSteps) {
  OpenSteps steps({}, 1);
  size_t expected = 0;
  for (int64_t step = 0; step < 3; ++step) {
    model::ShardReport report = Report(0, step, /*last=*/false);
    report.mutable_shards()->add_scalars()->set_name("loss");
    StepMerger alone;
    alone.Add(report);
    expected += alone.bytes();
    steps.Add(report, kStart);
    steps.Add(report, kStart);
    EXPECT_EQ(steps.bytes(), expected);
  }
}

TEST(OpenStepsTest, OpenStepsBeyondTheirBytesCloseOldestFirst) {
  model::ShardReport report = Report(0, 0, /*last=*/false);
  for (int e = 0; e < 64; ++e) report.mutable_shards()->add_gates()->set_layer(e);
  StepMerger alone;
  alone.Add(report);
  OpenSteps steps({.bytes_max = 2 * alone.bytes(), .kept_steps = 0}, 2);
  for (int64_t step = 0; step < 2; ++step) {
    report.set_step(step);
    steps.Add(report, kStart);
    EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty()) << "as many as may be";
  }
  report.set_step(2);
  steps.Add(report, kStart);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart);
  ASSERT_FALSE(closed.empty());
  EXPECT_EQ(closed[0].row.step, 0);
  EXPECT_TRUE(closed[0].row.partial);
}

TEST(OpenStepsTest, LatenessCountsFromTheFirstRankThatIsDone) {
  OpenSteps steps({.lateness = absl::Seconds(30)}, 3);
  steps.Add(Report(0, 1, /*last=*/false), kStart - absl::Seconds(100));
  steps.Add(Report(0, 1), kStart);
  steps.Add(Report(1, 1), kStart + absl::Seconds(20));
  EXPECT_THAT(steps.TakeSettled(kStart + absl::Seconds(29)), IsEmpty());
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart + absl::Seconds(30))), ElementsAre(1));
  EXPECT_THAT(steps.silent_ranks(), ElementsAre(2));
}

TEST(OpenStepsTest, OnlyRanksThatAStepWaitedForAreSilent) {
  OpenSteps steps({.lateness = absl::Seconds(1)}, 4);
  steps.Add(Report(0, 5), kStart);
  steps.Add(Report(1, 4), kStart);
  steps.Add(Report(2, 5, /*last=*/false), kStart);
  steps.RankGone(3);
  const absl::Time later = kStart + absl::Seconds(1);
  EXPECT_THAT(Numbers(steps.TakeSettled(later)), ElementsAre(4, 5));
  EXPECT_THAT(steps.silent_ranks(), ElementsAre(1, 2));
  steps.RankReturns(1);  // it was not gone
  EXPECT_THAT(steps.silent_ranks(), ElementsAre(1, 2));
  steps.RankGone(1);
  EXPECT_THAT(steps.silent_ranks(), ElementsAre(2));
  steps.RankReturns(1);
  EXPECT_THAT(steps.silent_ranks(), ElementsAre(2)) << "it said Hello";
  steps.Add(Report(0, 6), later);
  EXPECT_THAT(steps.TakeSettled(later), IsEmpty()) << "rank 1 is waited for again";
}

TEST(OpenStepsTest, AGoodbyeSettlesWhatWaitedForTheRankAlone) {
  OpenSteps steps({}, 3);
  steps.Add(Report(0, 1), kStart);
  steps.Add(Report(1, 1), kStart);
  steps.Add(Report(2, 0), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  steps.RankGone(2);
  steps.RankGone(2);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(1));
  // What it still says is merged, and waited for no more.
  EXPECT_EQ(steps.Add(Report(2, 2), kStart), OpenSteps::Outcome::kOpen);
  steps.Add(Report(0, 2), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty()) << "rank 1";
  steps.Add(Report(1, 2), kStart);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart);
  ASSERT_THAT(Numbers(closed), ElementsAre(2));
  EXPECT_EQ(closed[0].row.ranks, 3u);
}

TEST(OpenStepsTest, TheHindmostAreTheFarthestBehindIfAnyIs) {
  OpenSteps steps({}, 4);
  EXPECT_THAT(steps.hindmost(), IsEmpty()) << "all are where they begin";
  steps.Add(Report(3, 7), kStart);
  EXPECT_THAT(steps.hindmost(), ElementsAre(0, 1, 2));
  steps.Add(Report(1, 5), kStart);
  steps.Add(Report(0, 4), kStart);
  steps.RankGone(2);
  EXPECT_THAT(steps.hindmost(), ElementsAre(0));
  steps.Add(Report(0, 5), kStart);
  EXPECT_THAT(steps.hindmost(), ElementsAre(0, 1));
  steps.Add(Report(0, 7), kStart);
  steps.Add(Report(1, 6), kStart);
  EXPECT_THAT(steps.hindmost(), ElementsAre(1));
  steps.Add(Report(1, 7), kStart);
  EXPECT_THAT(steps.hindmost(), IsEmpty()) << "and rank 2 is gone";
  steps.Add(Report(1, 3), kStart);
  EXPECT_THAT(steps.hindmost(), IsEmpty()) << "no rank goes back";
}

TEST(OpenStepsTest, AClosedStepSaysWhatItsReportsSaid) {
  OpenSteps steps({}, 2);
  model::ShardReport report = Report(0, 9);
  report.set_time_unix_ns(1234);
  report.set_skipped(true);
  report.mutable_shards()->set_tokens(77);
  report.mutable_shards()->add_token_sources()->set_id(1);
  steps.Add(report, kStart);
  steps.Add(Report(1, 9), kStart);
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart);
  ASSERT_THAT(Numbers(closed), ElementsAre(9));
  EXPECT_EQ(closed[0].row, (model::StepRow{.attempt = 0,
                                           .step = 9,
                                           .time_unix_ns = 1234,
                                           .tokens = 77,
                                           .ranks = 2,
                                           .skipped = true}));
  ASSERT_NE(closed[0].merged, nullptr);
  EXPECT_EQ(closed[0].merged->tokens(), 77u);
}

TEST(OpenStepsTest, RetiringTellsWhichStepsWereWhole) {
  OpenSteps steps({}, 2);
  steps.Add(Report(0, 1), kStart);
  steps.Add(Report(1, 1), kStart);
  steps.Add(Report(0, 2), kStart);
  const std::vector<SettledStep> closed = steps.Retire();
  ASSERT_THAT(Numbers(closed), ElementsAre(1, 2));
  EXPECT_FALSE(closed[0].row.partial);
  EXPECT_TRUE(closed[1].row.partial);
  EXPECT_EQ(steps.last_closed(), 2);
}

TEST(OpenStepsTest, ARestartKnowsOfRanksAndReportsAsTheyWere) {
  OpenSteps steps({.lateness = absl::Seconds(30), .kept_steps = 32}, 3);
  steps.RestoreClosed(5, std::nullopt);
  EXPECT_EQ(steps.last_closed(), 5);
  steps.RestoreRank(0, 2, false);
  steps.RestoreRank(0, 6, false);  // the newer row
  steps.RestoreRank(1, 5, true);
  steps.RestoreRank(7, 1, false);  // no such rank in this world
  steps.RestoreReport(Report(7, 6), kStart);
  EXPECT_EQ(steps.open_steps(), 0u);
  EXPECT_EQ(steps.ranks_held(), 2u);
  EXPECT_THAT(steps.hindmost(), ElementsAre(2));
  steps.RestoreReport(Report(0, 6, /*last=*/false), kStart - absl::Seconds(50));
  steps.RestoreReport(Report(0, 6), kStart);
  steps.RestoreReport(Report(0, 6), kStart + absl::Seconds(20));
  EXPECT_EQ(steps.open_steps(), 1u);
  steps.RestoreReport(Report(0, 5), kStart);
  EXPECT_EQ(steps.open_steps(), 1u) << "5 had closed";
  EXPECT_THAT(steps.TakeSettled(kStart + absl::Seconds(29)), IsEmpty()) << "rank 2 is waited for";
  const std::vector<SettledStep> closed = steps.TakeSettled(kStart + absl::Seconds(30));
  ASSERT_THAT(Numbers(closed), ElementsAre(6));
  EXPECT_TRUE(closed[0].row.partial);
  EXPECT_EQ(closed[0].row.ranks, 1u);
  EXPECT_THAT(steps.silent_ranks(), ElementsAre(2));
  // What comes for the step that had closed before is late.
  EXPECT_EQ(steps.Add(Report(2, 5), kStart), OpenSteps::Outcome::kLate);
  const std::vector<SettledStep> changed = steps.TakeSettled(kStart);
  ASSERT_THAT(Numbers(changed), ElementsAre(5));
  EXPECT_EQ(changed[0].row.ranks, 2u);
}

TEST(OpenStepsTest, ARestartedRankThatSpeaksIsWaitedFor) {
  OpenSteps steps({}, 2);
  steps.RestoreRank(0, 3, false);
  steps.RestoreRank(1, 3, true);
  steps.RankReturns(1);
  steps.Add(Report(0, 4), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  steps.Add(Report(1, 4), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(4));
}

TEST(OpenStepsTest, ARankHasNoRoomFromItsLimitOn) {
  StepMerger alone;
  alone.Add(Gates(0, 0, 1));
  OpenSteps steps({.rank_bytes_max = alone.bytes()}, 2);
  EXPECT_EQ(steps.Add(Gates(0, 0, 1), kStart), OpenSteps::Outcome::kOpen);
  EXPECT_EQ(steps.Add(Gates(0, 0, 2), kStart), OpenSteps::Outcome::kNoRoom);
  OpenSteps more({.rank_bytes_max = alone.bytes() + 1}, 2);
  EXPECT_EQ(more.Add(Gates(0, 0, 1), kStart), OpenSteps::Outcome::kOpen);
  EXPECT_EQ(more.Add(Gates(0, 0, 2), kStart), OpenSteps::Outcome::kOpen);
}

TEST(OpenStepsTest, WhatComesLateTakesNoRoomOfOpenSteps) {
  OpenSteps steps({.rank_bytes_max = 10'000}, 1);
  steps.Add(Report(0, 0), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  for (uint64_t source = 1; source < 50; ++source) {
    EXPECT_EQ(steps.Add(Gates(0, 0, source), kStart), OpenSteps::Outcome::kLate);
  }
  EXPECT_GT(steps.bytes(), 10'000u);
  EXPECT_EQ(steps.Add(Gates(0, 1, 1), kStart), OpenSteps::Outcome::kOpen);
}

TEST(OpenStepsTest, AReportWithoutRoomChangesNoClosedStep) {
  OpenSteps steps({}, 1);
  steps.Add(Report(0, 0), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  EXPECT_EQ(steps.Add(Gates(0, 0, 1), kStart, /*room=*/false), OpenSteps::Outcome::kNoRoom);
  EXPECT_THAT(steps.TakeChanged(), IsEmpty());
}

TEST(OpenStepsTest, WhatARankClaimedBeforeItsGoodbyeDoesNotCount) {
  OpenSteps steps({.gate = {.ahead_max = 1000}}, 4);
  for (uint32_t rank = 0; rank < 4; ++rank) steps.Add(Report(rank, 0), kStart);
  steps.TakeSettled(kStart);
  for (const int64_t step : {50'000, 50'001}) {
    EXPECT_EQ(steps.Add(Report(1, step), kStart), OpenSteps::Outcome::kTooFar);
  }
  steps.RankGone(1);
  for (const int64_t step : {50'000, 50'001}) {
    EXPECT_EQ(steps.Add(Report(0, step), kStart), OpenSteps::Outcome::kTooFar);
  }
}

TEST(OpenStepsTest, AFirstReportThatWasWrongGivesItsRoomBack) {
  StepMerger alone;
  alone.Add(Gates(1, 0, 1));
  OpenSteps steps({.rank_bytes_max = alone.bytes(), .gate = {.ahead_max = 1000}}, 2);
  EXPECT_EQ(steps.Add(Gates(1, int64_t{1} << 53, 1), kStart), OpenSteps::Outcome::kOpen);
  EXPECT_GT(steps.bytes(), 0u);
  EXPECT_EQ(steps.Add(Report(0, 0), kStart), OpenSteps::Outcome::kOpen);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  StepMerger step0;
  step0.Add(Report(0, 0));
  EXPECT_EQ(steps.bytes(), step0.bytes());
  EXPECT_EQ(steps.Add(Gates(1, 1, 1), kStart), OpenSteps::Outcome::kOpen);
}

TEST(OpenStepsTest, HasWorkWhileACallWouldDoSomething) {
  OpenSteps steps({.kept_steps = 1}, 2);
  EXPECT_FALSE(steps.has_work());
  steps.Add(Report(0, 0), kStart);
  EXPECT_TRUE(steps.has_work()) << "a step is open";
  steps.Add(Report(1, 0), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  EXPECT_FALSE(steps.has_work());
  steps.Add(Report(1, 0), kStart);
  EXPECT_TRUE(steps.has_work()) << "a closed step has changed";
  EXPECT_THAT(Numbers(steps.TakeChanged()), ElementsAre(0));
  EXPECT_FALSE(steps.has_work());
  steps.Add(Report(0, 1), kStart);
  steps.Add(Report(1, 1), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(1));
  EXPECT_TRUE(steps.has_work()) << "step 0 is to be forgotten";
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  EXPECT_FALSE(steps.has_work());
}

TEST(OpenStepsTest, AsManyStepsMayBeOpenAsTheLimitSays) {
  OpenSteps steps({.open_steps_max = 2}, 2);
  steps.Add(Report(0, 0), kStart);
  steps.Add(Report(0, 1), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  steps.Add(Report(0, 2), kStart);
  EXPECT_THAT(steps.CloseDue(kStart, /*max=*/1), ::testing::SizeIs(1));
  EXPECT_EQ(steps.open_steps(), 2u);
}

TEST(OpenStepsTest, KeptStepsTakeTheBytesThatTheLimitSays) {
  StepMerger alone;
  alone.Add(Report(0, 0));
  OpenSteps steps({.bytes_max = alone.bytes()}, 1);
  steps.Add(Report(0, 0), kStart);
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart)), ElementsAre(0));
  EXPECT_THAT(steps.TakeSettled(kStart), IsEmpty());
  EXPECT_EQ(steps.bytes(), alone.bytes()) << "kept: no more than may be";
}

TEST(OpenStepsTest, NoMoreStepsCloseThanWereAskedFor) {
  OpenSteps steps({}, 1);
  for (int64_t step = 0; step < 3; ++step) steps.Add(Report(0, step), kStart);
  EXPECT_THAT(Numbers(steps.CloseDue(kStart, /*max=*/2)), ElementsAre(0, 1));
  EXPECT_THAT(Numbers(steps.CloseDue(kStart, /*max=*/2)), ElementsAre(2));
}

TEST(OpenStepsTest, AStepThatNoRankHasFinishedStaysOpen) {
  OpenSteps steps({.lateness = absl::Seconds(30)}, 2);
  steps.Add(Report(0, 1, /*last=*/false), kStart);
  EXPECT_THAT(steps.TakeSettled(kStart + absl::Hours(1)), IsEmpty());
}

TEST(OpenStepsTest, RanksThatAreOnTheWayAreWaitedForOnceMore) {
  OpenSteps steps({.lateness = absl::Seconds(30)}, 3);
  steps.Add(Report(0, 1), kStart);
  for (uint32_t rank : {1u, 2u}) steps.Add(Report(rank, 0), kStart + absl::Seconds(10));
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart + absl::Seconds(30))), ElementsAre(0));
  EXPECT_THAT(steps.TakeSettled(kStart + absl::Seconds(59)), IsEmpty());
  EXPECT_THAT(Numbers(steps.TakeSettled(kStart + absl::Seconds(60))), ElementsAre(1));
}

}  // namespace
}  // namespace foreshock::merge
