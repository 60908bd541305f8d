#include "daemon/store/fold_queue.h"

#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

using std::chrono::seconds;
using ::testing::Eq;
using ::testing::Optional;

constexpr uint64_t kSmallRun = 256 << 10;  // the share of a run of few series

class FoldQueueTest : public ::testing::Test {
 protected:
  static FoldQueue::Time At(int second) { return FoldQueue::Time(seconds(1000 + second)); }

  FoldQueue queue_{1 << 20, absl::Seconds(60)};
};

TEST_F(FoldQueueTest, ARunIsDueWithItsShareOfPointsAndNotBefore) {
  queue_.Added(7, kSmallRun - 1, 10, At(0));
  EXPECT_EQ(queue_.Due(At(0)), std::nullopt);
  queue_.Added(7, 1, 10, At(1));
  EXPECT_THAT(queue_.Due(At(1)), Optional(Eq(7u)));
  EXPECT_EQ(queue_.points(), kSmallRun);
}

TEST_F(FoldQueueTest, ManySeriesRaiseTheShareUpToTheLimit) {
  queue_.Added(1, kSmallRun, 8'000, At(0));  // 64 steps are 512 000 points
  EXPECT_EQ(queue_.Due(At(0)), std::nullopt);
  queue_.Added(1, 512'000 - kSmallRun, 8'000, At(0));
  EXPECT_THAT(queue_.Due(At(0)), Optional(Eq(1u)));
  queue_.Forget(1);
  queue_.Added(2, (1 << 20) - 1, 1'000'000, At(0));
  EXPECT_EQ(queue_.Due(At(0)), std::nullopt);
  queue_.Added(2, 1, 1'000'000, At(0));
  EXPECT_THAT(queue_.Due(At(0)), Optional(Eq(2u)));
}

TEST_F(FoldQueueTest, AnIdleRunIsDueWhateverItHolds) {
  queue_.Added(7, 1, 10, At(0));
  queue_.Added(7, 0, 10, At(5));
  EXPECT_EQ(queue_.NextDue(), At(65));
  EXPECT_EQ(queue_.Due(At(64)), std::nullopt);
  EXPECT_THAT(queue_.Due(At(65)), Optional(Eq(7u)));
}

TEST_F(FoldQueueTest, WhatWasFoldedIsNotDueAgain) {
  queue_.Added(7, kSmallRun, 10, At(0));
  queue_.Added(7, 3, 10, At(0));
  queue_.Folded(7, 1, kSmallRun);
  EXPECT_EQ(queue_.points(), 3u);
  EXPECT_EQ(queue_.Due(At(0)), std::nullopt);
  queue_.Folded(7, 1, 3);
  EXPECT_EQ(queue_.NextDue(), std::nullopt);
}

TEST_F(FoldQueueTest, AFailedRunIsLeftAloneForTenSeconds) {
  queue_.Added(7, 5 * kSmallRun, 10, At(0));
  EXPECT_TRUE(queue_.Overfull(7, At(0)));
  queue_.Failed(7, At(1));
  EXPECT_EQ(queue_.Due(At(10)), std::nullopt);
  EXPECT_FALSE(queue_.Overfull(7, At(10))) << "its writer would wait for another failure";
  EXPECT_EQ(queue_.NextDue(), At(11));
  EXPECT_THAT(queue_.Due(At(11)), Optional(Eq(7u)));
  EXPECT_TRUE(queue_.Overfull(7, At(11)));
}

TEST_F(FoldQueueTest, OverfullIsFourTimesTheShare) {
  queue_.Added(7, 4 * kSmallRun - 1, 10, At(0));
  EXPECT_FALSE(queue_.Overfull(7, At(0)));
  queue_.Added(7, 1, 10, At(0));
  EXPECT_TRUE(queue_.Overfull(7, At(0)));
  EXPECT_FALSE(queue_.Overfull(8, At(0)));
}

TEST(FoldQueueIdleTest, InfinitelyIdleIsNever) {
  FoldQueue queue(1 << 20, absl::InfiniteDuration());
  const FoldQueue::Time now(seconds(1000));
  queue.Added(1, 1, 1, now);
  EXPECT_EQ(queue.Due(now + std::chrono::hours(1000)), std::nullopt);
}

}  // namespace
}  // namespace foreshock::store
