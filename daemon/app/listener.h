// Joins what the pipeline commits to those who show it: /metrics and the notifiers.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/exporter/snapshot_builder.h"
#include "daemon/notify/dispatcher.h"
#include "daemon/pipeline/listener.h"

namespace foreshock {

// Only on the pipeline's writer's thread, but for the constructor.
class AppListener final : public PipelineListener {
 public:
  AppListener(SnapshotBuilder* snapshots, Dispatcher* dispatcher, const Clock* clock)
      : snapshots_(snapshots), dispatcher_(dispatcher), clock_(clock) {}

  void OnStep(const ClosedStep& step) override;
  void OnAlert(const model::AlertRow& row, bool restored) override;
  void OnRun(const std::string& run, const std::vector<AttemptStatus>& attempts) override;
  void OnRunDeleted(const std::string& run) override;
  void OnRound() override;

 private:
  SnapshotBuilder* const snapshots_;
  Dispatcher* const dispatcher_;
  const Clock* const clock_;
  bool changed_ = false;
  absl::Time publish_at_ = absl::InfinitePast();
};

}  // namespace foreshock
