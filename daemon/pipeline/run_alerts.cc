#include "daemon/pipeline/run_alerts.h"

namespace foreshock::pipeline {
namespace {

// It is over, and nobody is left to be told.
bool IsDone(const model::AlertRow& row) {
  return row.alert().state() == v1::ALERT_STATE_RESOLVED && !row.undelivered();
}

}  // namespace

void RunAlerts::Restore(const model::AlertRow& row) {
  if (!IsDone(row)) rows_[row.alert().id()] = row;
}

void RunAlerts::Judge(model::AlertRow row, absl::Time now, Changes* changes) {
  if (const model::AlertRow* before = Find(row.alert().id()); before != nullptr) {
    *row.mutable_deliveries() = before->deliveries();
    if (before->alert().has_acknowledgement()) {
      *row.mutable_alert()->mutable_acknowledgement() = before->alert().acknowledgement();
    }
    row.set_fired_unix_ns(before->fired_unix_ns());
  }
  if (row.fired_unix_ns() == 0) row.set_fired_unix_ns(absl::ToUnixNanos(now));
  if (row.alert().state() == v1::ALERT_STATE_RESOLVED) {
    row.set_ended_unix_ns(absl::ToUnixNanos(now));
  }
  row.set_undelivered(true);
  changes->alerts.push_back(row);
  Put(std::move(row), changes);
}

const model::AlertRow* RunAlerts::Find(const std::string& id) const {
  const auto found = rows_.find(id);
  return found == rows_.end() ? nullptr : &found->second;
}

void RunAlerts::Put(model::AlertRow row, Changes* changes) {
  if (IsDone(row)) {
    rows_.erase(row.alert().id());
  } else {
    rows_[row.alert().id()] = row;
  }
  changes->batch.alerts.push_back({run_, std::move(row)});
}

}  // namespace foreshock::pipeline
