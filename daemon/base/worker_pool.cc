#include "daemon/base/worker_pool.h"

#include <utility>

#include "daemon/base/check.h"

namespace foreshock::base {

WorkerPool::WorkerPool(Options options)
    : queue_({.items_max = options.tasks_max, .bytes_max = options.tasks_max}) {
  FORESHOCK_CHECK(options.threads >= 1);
  threads_.reserve(options.threads);
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Loop(); });
}

bool WorkerPool::TryRun(std::function<void()> task) { return queue_.TryPush(std::move(task), 1); }

void WorkerPool::Stop() {
  queue_.Close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::Loop() {
  // One at a time, so that a slow task does not keep others from idle threads.
  for (auto task = queue_.PopAll(1); !task.empty(); task = queue_.PopAll(1)) task.front()();
}

}  // namespace foreshock::base
