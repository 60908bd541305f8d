// A few threads and a bounded queue of tasks, for work that must not hold up the thread it came on.
// Thread-safe.
//
//   WorkerPool pool({.threads = 2, .tasks_max = 64});
//   if (!pool.TryRun([=] { Compute(); })) RetryLater();
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "daemon/base/bounded_queue.h"

namespace foreshock::base {

class WorkerPool {
 public:
  struct Options {
    int threads = 2;        // >= 1
    size_t tasks_max = 64;  // waiting, beside the ones that run
  };

  explicit WorkerPool(Options options);
  ~WorkerPool() { Stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False, and the task will not run, when the queue is full or the pool has stopped.
  [[nodiscard]] bool TryRun(std::function<void()> task);

  // Runs what was taken, then ends the threads. Not from inside a task.
  void Stop();

  size_t waiting() const { return queue_.size(); }

 private:
  void Loop();

  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace foreshock::base
