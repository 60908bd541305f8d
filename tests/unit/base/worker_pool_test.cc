#include "daemon/base/worker_pool.h"

#include <atomic>
#include <future>

#include "gtest/gtest.h"

namespace foreshock::base {
namespace {

TEST(WorkerPoolTest, RunsWhatItTookBeforeItStops) {
  std::atomic<int> ran{0};
  WorkerPool pool({.threads = 3, .tasks_max = 100});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(pool.TryRun([&ran] { ++ran; }));
  pool.Stop();
  EXPECT_EQ(ran, 50);
  EXPECT_FALSE(pool.TryRun([&ran] { ++ran; }));
}

TEST(WorkerPoolTest, ASlowTaskDoesNotKeepOthersFromIdleThreads) {
  std::promise<void> release;  // they outlive the tasks that use them
  std::promise<void> done;
  WorkerPool pool({.threads = 2, .tasks_max = 10});
  ASSERT_TRUE(pool.TryRun([&release] { release.get_future().wait(); }));
  ASSERT_TRUE(pool.TryRun([&done] { done.set_value(); }));
  done.get_future().wait();
  release.set_value();
}

TEST(WorkerPoolTest, RefusesBeyondItsQueue) {
  std::promise<void> started;
  std::promise<void> release;
  WorkerPool pool({.threads = 1, .tasks_max = 1});
  ASSERT_TRUE(pool.TryRun([&] {
    started.set_value();
    release.get_future().wait();
  }));
  started.get_future().wait();
  EXPECT_TRUE(pool.TryRun([] {}));
  EXPECT_FALSE(pool.TryRun([] {}));
  release.set_value();
}

}  // namespace
}  // namespace foreshock::base
