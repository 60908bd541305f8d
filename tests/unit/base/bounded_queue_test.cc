#include "daemon/base/bounded_queue.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::base {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BoundedQueueTest, HandsOutInOrderEverythingThatIsThere) {
  BoundedQueue<int> queue({.items_max = 3, .bytes_max = 100});
  ASSERT_TRUE(queue.TryPush(1, 10));
  ASSERT_TRUE(queue.TryPush(2, 10));
  EXPECT_EQ(queue.bytes(), 20u);
  EXPECT_THAT(queue.PopAll(), ElementsAre(1, 2));
  EXPECT_EQ(queue.bytes(), 0u);
}

TEST(BoundedQueueTest, RefusesBeyondItemsAndBytes) {
  BoundedQueue<int> items({.items_max = 1, .bytes_max = 100});
  ASSERT_TRUE(items.TryPush(1, 0));
  EXPECT_FALSE(items.TryPush(2, 0));

  BoundedQueue<int> bytes({.items_max = 10, .bytes_max = 100});
  ASSERT_TRUE(bytes.TryPush(1, 60));
  EXPECT_FALSE(bytes.TryPush(2, 41));
  EXPECT_TRUE(bytes.TryPush(3, 40));
}

TEST(BoundedQueueTest, TakesOneOversizedItemWhenEmpty) {
  BoundedQueue<int> queue({.items_max = 10, .bytes_max = 100});
  EXPECT_TRUE(queue.TryPush(1, 1000));
  EXPECT_FALSE(queue.TryPush(2, 1));
}

TEST(BoundedQueueTest, PushIsRefusedOnlyByAClosedQueue) {
  BoundedQueue<int> queue({.items_max = 1, .bytes_max = 10});
  ASSERT_TRUE(queue.TryPush(1, 10));
  EXPECT_TRUE(queue.Push(2, 5));
  EXPECT_EQ(queue.bytes(), 15u);
  EXPECT_FALSE(queue.TryPush(3, 0));
  EXPECT_THAT(queue.PopAll(), ElementsAre(1, 2));
  queue.Close();
  EXPECT_FALSE(queue.Push(4, 0));
}

TEST(BoundedQueueTest, CloseLetsTheRestOutAndEndsTheReader) {
  BoundedQueue<int> queue({});
  ASSERT_TRUE(queue.TryPush(7, 1));
  queue.Close();
  EXPECT_FALSE(queue.TryPush(8, 1));
  EXPECT_THAT(queue.PopAll(), ElementsAre(7));
  EXPECT_THAT(queue.PopAll(), IsEmpty());
}

TEST(BoundedQueueTest, WakesAWaitingReader) {
  BoundedQueue<int> queue({});
  std::vector<int> got;
  std::thread reader([&] { got = queue.PopAll(); });
  ASSERT_TRUE(queue.TryPush(5, 1));
  reader.join();
  EXPECT_THAT(got, ElementsAre(5));
}

}  // namespace
}  // namespace foreshock::base
