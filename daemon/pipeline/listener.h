// Who wants to know what has been committed: the exporter's snapshot, the notifiers.
#pragma once

#include <string>

#include "daemon/model/rows.pb.h"
#include "daemon/model/step.h"

namespace foreshock {

// Called on the writer's thread, after the commit, in the order of the commit. Must be quick.
class PipelineListener {
 public:
  virtual ~PipelineListener() = default;
  virtual void OnStep(const ClosedStep& step) = 0;
  // `restored`: read back after a restart; it was told before.
  virtual void OnAlert(const model::AlertRow& row, bool restored) = 0;
  // A run began, got a new attempt, lost or won a rank, or ended.
  virtual void OnRun(const std::string& run) = 0;
  virtual void OnRunDeleted(const std::string& run) = 0;
};

}  // namespace foreshock
