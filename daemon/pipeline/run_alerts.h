// The alerts of one run that go on, and those that are over but of which someone is still to be
// told: how they stand, and what was told and said of them.
//
//   RunAlerts alerts("exp-42");
//   for (model::AlertRow& row : evaluator.Evaluate(step)) alerts.Judge(std::move(row), now,
//   &changes); if (const model::AlertRow* row = alerts.Find(id); row != nullptr) ...
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"
#include "daemon/pipeline/changes.h"

namespace foreshock::pipeline {

// Only on the writer's thread.
class RunAlerts {
 public:
  explicit RunAlerts(std::string run) : run_(std::move(run)) {}

  // A stored row, after a restart.
  void Restore(const model::AlertRow& row);

  // Takes the evaluator's word on how an alert stands. What was told and said of it goes on from
  // its row before. Listeners hear of it.
  void Judge(model::AlertRow row, absl::Time now, Changes* changes);

  // The newest row, or null.
  const model::AlertRow* Find(const std::string& id) const;

  // Puts a row that Find gave, changed in what was told or said of it.
  void Put(model::AlertRow row, Changes* changes);

 private:
  const std::string run_;
  std::map<std::string, model::AlertRow> rows_;  // by id
};

}  // namespace foreshock::pipeline
