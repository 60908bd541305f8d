// Joins what the pipeline commits to those who show it: /metrics and the notifiers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/exporter/snapshot_builder.h"
#include "daemon/notify/dispatcher.h"
#include "daemon/pipeline/listener.h"

namespace foreshock {

// On the pipeline's writer's thread, but for what says otherwise.
class AppListener final : public PipelineListener {
 public:
  AppListener(SnapshotBuilder* snapshots, Dispatcher* dispatcher, const Clock* clock)
      : snapshots_(snapshots), dispatcher_(dispatcher), clock_(clock) {}

  void OnStep(const ClosedStep& step) override;
  void OnAlert(const model::AlertRow& row, bool restored) override;
  void OnRun(const std::string& run, const std::vector<AttemptStatus>& attempts) override;
  void OnRunDeleted(const std::string& run) override;
  void OnRound() override;

  // By (notifier, result). Thread-safe.
  std::map<std::pair<std::string, std::string>, uint64_t> notifications() const {
    MutexLock lock(&mutex_);
    return notifications_;
  }

 private:
  SnapshotBuilder* const snapshots_;
  Dispatcher* const dispatcher_;
  const Clock* const clock_;
  bool changed_ = false;
  absl::Time publish_at_ = absl::InfinitePast();

  mutable Mutex mutex_;
  std::map<std::pair<std::string, std::string>, uint64_t> notifications_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock
