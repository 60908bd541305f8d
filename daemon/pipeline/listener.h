// Who wants to know what has been committed: the exporter's snapshot, the notifiers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/model/rows.pb.h"
#include "daemon/model/step.h"

namespace foreshock::pipeline {

// How an attempt stands right now.
struct AttemptStatus {
  uint32_t attempt = 0;
  v1::RunState state = v1::RUN_STATE_UNSPECIFIED;
  uint32_t world_size = 0;
  uint32_t ranks_connected = 0;
  std::optional<int64_t> resume_step{};  // as it was declared
  std::optional<int64_t> last_step{};    // closed
};

// Called on the writer's thread, after the commit, in the order of the commit. Must be quick.
class PipelineListener {
 public:
  virtual ~PipelineListener() = default;
  virtual void OnStep(const model::ClosedStep& step) = 0;
  // `restored`: read back after a restart; it was told before.
  virtual void OnAlert(const model::AlertRow& row, bool restored) = 0;
  // A run began, got a new attempt, lost or won a rank, or ended.
  virtual void OnRun(const std::string& run, const std::vector<AttemptStatus>& attempts) = 0;
  virtual void OnRunDeleted(const std::string& run) = 0;
  // The writer's thread has finished a round, at least every 100 ms.
  virtual void OnRound() = 0;
};

}  // namespace foreshock::pipeline
