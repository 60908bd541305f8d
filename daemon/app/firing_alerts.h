// The alerts that fire, in memory: what counts of them are made from without reading the store.
//
//   FiringAlerts firing;
//   firing.Put(alert);                                  // whenever one changes
//   firing.ForEach([&](const v1::Alert& alert) { ... });
#pragma once

#include <functional>
#include <map>
#include <string>

#include "daemon/base/mutex.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::app {

// Thread-safe.
class FiringAlerts {
 public:
  // Keeps the alert if its state is firing, else forgets it.
  void Put(const v1::Alert& alert) {
    base::MutexLock lock(&mutex_);
    auto& of_run = runs_[alert.run()];
    if (alert.state() == v1::ALERT_STATE_FIRING) {
      of_run[alert.id()] = alert;
    } else {
      of_run.erase(alert.id());
    }
    if (of_run.empty()) runs_.erase(alert.run());
  }
  void DropRun(const std::string& run) {
    base::MutexLock lock(&mutex_);
    runs_.erase(run);
  }
  // `visit` must not come back here.
  void ForEach(const std::function<void(const v1::Alert&)>& visit) const {
    base::MutexLock lock(&mutex_);
    for (const auto& [run, alerts] : runs_) {
      for (const auto& [id, alert] : alerts) visit(alert);
    }
  }

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, std::map<std::string, v1::Alert>> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace foreshock::app
