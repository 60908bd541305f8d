// Joins what the pipeline commits to those who show it: /metrics and the notifiers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/exporter/snapshot_builder.h"
#include "daemon/notify/outbox.h"
#include "daemon/pipeline/listener.h"

namespace foreshock {

// On the pipeline's writer's thread.
class AppListener final : public PipelineListener {
 public:
  AppListener(SnapshotBuilder* snapshots, Outbox* outbox, const Clock* clock)
      : snapshots_(snapshots), outbox_(outbox), clock_(clock) {}

  void OnStep(const ClosedStep& step) override;
  void OnAlert(const model::AlertRow& row, bool restored) override;
  void OnRun(const std::string& run, const std::vector<AttemptStatus>& attempts) override;
  void OnRunDeleted(const std::string& run) override;
  void OnRound() override;

 private:
  SnapshotBuilder* const snapshots_;
  Outbox* const outbox_;
  const Clock* const clock_;
  std::map<std::string, uint32_t> attempts_;  // the newest that is known, by run
  bool changed_ = false;
  absl::Time publish_at_ = absl::InfinitePast();
};

// When what fires in a run that stands like that is no longer repeated: nothing will end it.
absl::Time QuietFrom(v1::RunState state, absl::Time now);

}  // namespace foreshock
