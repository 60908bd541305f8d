#include "daemon/store/fold_queue.h"

#include <optional>
#include <thread>

#include "daemon/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr uint64_t kSmallRun = 256 << 10;  // the share of a run of few series

class FoldQueueTest : public ::testing::Test {
 protected:
  static absl::Time At(int second) { return absl::FromUnixSeconds(1000 + second); }

  FoldQueue queue_{1 << 20, absl::Seconds(60)};
};

TEST_F(FoldQueueTest, ARunIsDueWithItsShareOfPointsAndNotBefore) {
  queue_.Add({{7, kSmallRun - 1, 10}}, At(0));
  EXPECT_EQ(queue_.Due(At(0)), std::nullopt);
  queue_.Add({{7, 1, 10}}, At(1));
  EXPECT_THAT(queue_.Due(At(1)), Optional(Eq(7u)));
  EXPECT_EQ(queue_.points(), kSmallRun);
}

TEST_F(FoldQueueTest, ManySeriesRaiseTheShareUpToTheLimit) {
  queue_.Add({{1, kSmallRun, 8'000}}, At(0));  // 64 steps are 512 000 points
  EXPECT_EQ(queue_.Due(At(0)), std::nullopt);
  queue_.Add({{1, 512'000 - kSmallRun, 8'000}}, At(0));
  EXPECT_THAT(queue_.Due(At(0)), Optional(Eq(1u)));
  queue_.Forget(1);
  queue_.Add({{2, (1 << 20) - 1, 1'000'000}}, At(0));
  EXPECT_EQ(queue_.Due(At(0)), std::nullopt);
  queue_.Add({{2, 1, 1'000'000}}, At(0));
  EXPECT_THAT(queue_.Due(At(0)), Optional(Eq(2u)));
}

TEST_F(FoldQueueTest, AnIdleRunIsDueWhateverItHolds) {
  queue_.Add({{7, 1, 10}}, At(0));
  queue_.Add({{7, 0, 10}}, At(5));
  EXPECT_EQ(queue_.NextDue(), At(65));
  EXPECT_EQ(queue_.Due(At(64)), std::nullopt);
  EXPECT_THAT(queue_.Due(At(65)), Optional(Eq(7u)));
}

TEST_F(FoldQueueTest, WhatWasFoldedIsNotDueAgain) {
  queue_.Add({{7, kSmallRun, 10}, {7, 3, 10}}, At(0));
  queue_.Folded({7, 1, kSmallRun});
  EXPECT_EQ(queue_.points(), 3u);
  EXPECT_EQ(queue_.Due(At(0)), std::nullopt);
  queue_.Folded({7, 1, 3});
  EXPECT_EQ(queue_.NextDue(), std::nullopt);
}

TEST_F(FoldQueueTest, AFailedRunIsLeftAloneForTenSeconds) {
  EXPECT_THAT(queue_.Add({{7, 5 * kSmallRun, 10}}, At(0)), ElementsAre(7));
  queue_.Failed(7, At(1));
  EXPECT_EQ(queue_.Due(At(10)), std::nullopt);
  EXPECT_EQ(queue_.NextDue(), At(11));
  EXPECT_THAT(queue_.Due(At(11)), Optional(Eq(7u)));
  EXPECT_THAT(queue_.Add({{7, 1, 10}}, At(10)), IsEmpty())
      << "its writer would wait for another failure";
  EXPECT_THAT(queue_.Add({{7, 1, 10}}, At(11)), ElementsAre(7));
}

TEST_F(FoldQueueTest, AWriterWaitsAtFourTimesTheShareOfItsRun) {
  EXPECT_THAT(queue_.Add({{7, 4 * kSmallRun - 1, 10}, {8, 1, 10}}, At(0)), IsEmpty());
  EXPECT_THAT(queue_.Add({{8, 1, 10}}, At(0)), IsEmpty());
  EXPECT_THAT(queue_.Add({{7, 1, 10}, {8, 1, 10}, {7, 1, 10}}, At(0)), ElementsAre(7));
}

TEST_F(FoldQueueTest, AResetForgetsWhatIsNotGivenAgain) {
  queue_.Add({{7, kSmallRun, 10}, {8, 5, 10}}, At(0));
  queue_.Reset({{8, kSmallRun, 10}}, At(1));
  EXPECT_EQ(queue_.points(), kSmallRun);
  EXPECT_THAT(queue_.Due(At(1)), Optional(Eq(8u)));
}

TEST_F(FoldQueueTest, WaitingEndsWithARunThatIsDueAndWithAStop) {
  std::optional<uint32_t> first;
  std::optional<uint32_t> second = 1;
  std::thread waiter([&] {
    first = queue_.WaitForDue();
    queue_.Forget(first.value_or(0));
    second = queue_.WaitForDue();
  });
  queue_.Add({{7, kSmallRun, 10}}, base::SteadyNow());
  while (queue_.NextDue().has_value()) std::this_thread::yield();
  queue_.Stop();
  waiter.join();
  EXPECT_THAT(first, Optional(Eq(7u)));
  EXPECT_EQ(second, std::nullopt);
}

TEST(FoldQueueIdleTest, InfinitelyIdleIsNever) {
  FoldQueue queue(1 << 20, absl::InfiniteDuration());
  const absl::Time now = absl::FromUnixSeconds(1000);
  queue.Add({{1, 1, 1}}, now);
  EXPECT_EQ(queue.Due(now + absl::Hours(1000)), std::nullopt);
}

}  // namespace
}  // namespace foreshock::store
