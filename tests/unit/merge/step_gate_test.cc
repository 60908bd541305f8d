#include "daemon/merge/step_gate.h"

#include "gtest/gtest.h"

namespace foreshock::merge {
namespace {

constexpr int64_t kWild = (int64_t{1} << 53) - 1;

// A run of four ranks at step 100.
class StepGateTest : public ::testing::Test {
 protected:
  StepGateTest() {
    for (int64_t step = 0; step <= 100; ++step) {
      for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(Admit(rank, step));
      gate_.Closed(step);
    }
  }
  bool Admit(uint32_t rank, int64_t step) { return gate_.Admit(rank, step, kRanks); }

  static constexpr size_t kRanks = 4;
  StepGate gate_{{.ahead_max = 1000}};
};

TEST_F(StepGateTest, AWildStepIsRefusedAndMovesNothing) {
  EXPECT_EQ(gate_.reach(), 1100);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Admit(3, kWild));
  EXPECT_FALSE(Admit(3, 1101));
  EXPECT_TRUE(Admit(3, 1100));
  EXPECT_EQ(gate_.at(), 100);
}

TEST_F(StepGateTest, MostRanksMoveTheRunOnceEachHasConfirmed) {
  for (uint32_t rank : {0u, 1u, 2u}) EXPECT_FALSE(Admit(rank, 50'000)) << "once is no proof";
  EXPECT_FALSE(Admit(0, 50'001));
  EXPECT_FALSE(Admit(1, 50'001)) << "two of four are not most";
  EXPECT_TRUE(Admit(2, 50'001));
  EXPECT_TRUE(Admit(0, 50'002));
  EXPECT_TRUE(Admit(3, 101)) << "who has not jumped is merely behind";
}

TEST_F(StepGateTest, AClaimIsConfirmedByALaterStepThatIsNear) {
  StepGate gate({.ahead_max = 1000});
  ASSERT_TRUE(gate.Admit(0, 100, 1));
  gate.Closed(100);
  EXPECT_FALSE(gate.Admit(0, 50'000, 1));
  EXPECT_FALSE(gate.Admit(0, 50'000, 1)) << "the same again";
  EXPECT_FALSE(gate.Admit(0, 49'999, 1)) << "an earlier one";
  EXPECT_FALSE(gate.Admit(0, kWild, 1)) << "one that is far from it";
  EXPECT_TRUE(gate.Admit(0, 101, 1)) << "the claim is withdrawn";
  EXPECT_FALSE(gate.Admit(0, 50'001, 1)) << "and begins again";
  EXPECT_TRUE(gate.Admit(0, 50'002, 1));
}

TEST_F(StepGateTest, WhatARankClaimedBeforeItsGoodbyeDoesNotCount) {
  for (uint32_t rank : {0u, 1u}) {
    EXPECT_FALSE(Admit(rank, 50'000));
    EXPECT_FALSE(Admit(rank, 50'001));
  }
  gate_.Forget(1);
  EXPECT_FALSE(gate_.Admit(2, 50'000, 3));
  EXPECT_FALSE(gate_.Admit(0, 50'002, 3));
  EXPECT_TRUE(gate_.Admit(2, 50'001, 3));
}

TEST_F(StepGateTest, AnExpectedStepIsWithinReachAndThePresentStays) {
  gate_.Expect(70'000);
  EXPECT_EQ(gate_.reach(), 71'000);
  EXPECT_EQ(gate_.at(), 100);
  EXPECT_TRUE(Admit(3, 70'000));
  EXPECT_FALSE(Admit(3, kWild));
}

TEST(StepGate, ARunWhoseStepsAreFarApartIsGivenMore) {
  StepGate gate({.ahead_max = 10});
  for (int64_t step = 0; step <= 5'000; step += 500) {
    if (step == 500) {
      EXPECT_FALSE(gate.Admit(0, step, 1)) << "the first is more than 10 away";
    }
    if (step == 1'000) {
      EXPECT_TRUE(gate.Admit(0, step, 1)) << "the second confirms";
    }
    if (step != 500) {
      EXPECT_TRUE(gate.Admit(0, step, 1));
      gate.Closed(step);
    }
  }
  EXPECT_GE(gate.reach(), 5'000 + 10 * 500);
}

TEST(StepGate, BelievesTheFirstReportUntilAStepCloses) {
  StepGate gate({.ahead_max = 1000});
  EXPECT_TRUE(gate.Admit(0, 250'000, 1)) << "a run that is watched from its middle on";
  EXPECT_FALSE(gate.Closed(250'000));
  EXPECT_EQ(gate.reach(), 251'000);

  StepGate wild({.ahead_max = 1000});
  EXPECT_TRUE(wild.Admit(3, kWild, 4));
  EXPECT_TRUE(wild.Admit(0, 0, 4));
  EXPECT_TRUE(wild.Closed(0)) << "the first report was wrong";
  EXPECT_EQ(wild.reach(), 1000);
}

TEST(StepGate, AJumpOfMostIsNotTakenBackByAStepThatClosesBehindIt) {
  StepGate gate({.ahead_max = 1000});
  EXPECT_TRUE(gate.Admit(3, 3, 1));
  EXPECT_FALSE(gate.Admit(0, 250'000, 2));
  EXPECT_FALSE(gate.Admit(1, 250'000, 3));
  EXPECT_FALSE(gate.Admit(0, 250'001, 3));
  EXPECT_TRUE(gate.Admit(1, 250'001, 3));
  EXPECT_FALSE(gate.Closed(3));
  EXPECT_EQ(gate.at(), 250'000 + 1);
}

TEST(StepGate, GoesOnAfterARestart) {
  StepGate gate({.ahead_max = 1000});
  gate.Restore(/*first=*/0, /*last=*/5'000, /*count=*/11);
  EXPECT_EQ(gate.at(), 5'000);
  EXPECT_EQ(gate.reach(), 5'000 + 1000 * 500);
  EXPECT_FALSE(gate.Admit(0, kWild, 1));
}

TEST(StepGate, ReachDoesNotOverflow) {
  StepGate gate({.ahead_max = INT64_MAX});
  EXPECT_TRUE(gate.Admit(0, 5, 1));
  EXPECT_TRUE(gate.Admit(0, kWild, 1));
}

}  // namespace
}  // namespace foreshock::merge
