// A queue between threads, bounded in items and bytes; its only overload behaviour is that TryPush
// fails. What may never be refused, and is bounded elsewhere, goes in by Push. Thread-safe.
//
//   BoundedQueue<Work> queue({.items_max = 1024, .bytes_max = 64 << 20});
//   if (!queue.TryPush(std::move(work), bytes)) Refuse();
//   while (auto batch = queue.PopAll(); !batch.empty()) Handle(batch);
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/mutex.h"

namespace foreshock::base {

template <typename T>
class BoundedQueue {
 public:
  struct Options {
    size_t items_max = 1024;
    size_t bytes_max = 64u << 20;
  };

  explicit BoundedQueue(Options options) : options_(options) {}

  // False, with `item` untouched, when the queue is full or closed. An item larger than bytes_max
  // is taken when the queue is empty, so that it cannot block for ever.
  [[nodiscard]] bool TryPush(T&& item, size_t bytes) {
    MutexLock lock(&mutex_);
    if (closed_ || items_.size() >= options_.items_max) return false;
    if (!items_.empty() && bytes_ + bytes > options_.bytes_max) return false;
    AddLocked(std::move(item), bytes);
    return true;
  }

  // As TryPush, but past the limits: false only when the queue is closed.
  [[nodiscard]] bool Push(T&& item, size_t bytes) {
    MutexLock lock(&mutex_);
    if (closed_) return false;
    AddLocked(std::move(item), bytes);
    return true;
  }

  // Waits until there is something or the queue is closed; everything that is there, in order, at
  // most `items_max` of it. Empty only when closed and drained.
  std::vector<T> PopAll(size_t items_max = static_cast<size_t>(-1)) {
    MutexLock lock(&mutex_);
    while (items_.empty() && !closed_) not_empty_.Wait(&mutex_);
    return TakeLocked(items_max);
  }

  // As PopAll, but gives up empty-handed after `timeout`.
  std::vector<T> PopAllFor(absl::Duration timeout, size_t items_max = static_cast<size_t>(-1)) {
    MutexLock lock(&mutex_);
    while (items_.empty() && !closed_) {
      if (!not_empty_.WaitFor(&mutex_, timeout)) break;
    }
    return TakeLocked(items_max);
  }

  // No more pushes; what is inside can still be taken.
  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
    not_empty_.NotifyAll();
  }

  bool closed() const {
    MutexLock lock(&mutex_);
    return closed_;
  }
  size_t size() const {
    MutexLock lock(&mutex_);
    return items_.size();
  }
  size_t bytes() const {
    MutexLock lock(&mutex_);
    return bytes_;
  }

 private:
  void AddLocked(T&& item, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    items_.push_back(std::move(item));
    sizes_.push_back(bytes);
    bytes_ += bytes;
    not_empty_.NotifyOne();
  }

  std::vector<T> TakeLocked(size_t items_max) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<T> taken;
    while (!items_.empty() && taken.size() < items_max) {
      taken.push_back(std::move(items_.front()));
      items_.pop_front();
      bytes_ -= sizes_.front();
      sizes_.pop_front();
    }
    return taken;
  }

  const Options options_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  std::deque<size_t> sizes_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace foreshock::base
