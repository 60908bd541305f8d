// Joins what the pipeline commits to those who show it: /metrics and the notifiers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/exporter/snapshot_builder.h"
#include "daemon/notify/outbox.h"
#include "daemon/pipeline/listener.h"
#include "daemon/store/store.h"

namespace foreshock::app {

// On the pipeline's writer's thread.
class AppListener final : public pipeline::PipelineListener {
 public:
  // All outlive it.
  AppListener(exporter::SnapshotOptions options, exporter::SnapshotBuilder* snapshots,
              notify::Outbox* outbox, const store::Store* store, const base::Clock* clock)
      : options_(options), snapshots_(snapshots), outbox_(outbox), store_(store), clock_(clock) {}

  void OnStep(const model::ClosedStep& step) override;
  void OnAlert(const model::AlertRow& row, bool restored) override;
  void OnRun(const std::string& run, const std::vector<pipeline::AttemptStatus>& attempts) override;
  void OnRunDeleted(const std::string& run) override;
  void OnRound() override;

 private:
  struct Known {
    uint32_t attempt = 0;  // the newest
    v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
    // Since when what fires in it may have left the outbox.
    absl::Time told_from = absl::InfiniteFuture();
  };

  void ShowNewest(const std::string& run, const pipeline::AttemptStatus& attempt);
  void TellEnd(const std::string& run, v1::RunState state, Known* known);

  const exporter::SnapshotOptions options_;
  exporter::SnapshotBuilder* const snapshots_;
  notify::Outbox* const outbox_;
  const store::Store* const store_;
  const base::Clock* const clock_;
  std::map<std::string, Known> known_;  // by run
  bool changed_ = false;
  absl::Time publish_at_ = absl::InfinitePast();
};

// Offers what the process before this one had not told, or not to the end.
absl::Status FillOutbox(const store::Store& store, const exporter::SnapshotOptions& options,
                        absl::Time now, notify::Outbox* outbox);

// Of a run that comes to stand like that now; unset: it goes on. Its alerts are told as over when
// it leaves /metrics.
std::optional<notify::RunEnd> RunEndOf(v1::RunState state, const exporter::SnapshotOptions& options,
                                       absl::Time now);

}  // namespace foreshock::app
