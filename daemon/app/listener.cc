#include "daemon/app/listener.h"

namespace foreshock {
namespace {

// A scrape sees values at most this old; a busy run commits thousands of times a second.
constexpr absl::Duration kPublishInterval = absl::Milliseconds(200);

}  // namespace

void AppListener::OnStep(const ClosedStep& step) {
  snapshots_->Observe(step);
  changed_ = true;
}

void AppListener::OnAlert(const model::AlertRow& row, bool restored) {
  snapshots_->SetAlert(row.alert());
  // The row in the store says already that people were told.
  if (!restored) {
    (void)dispatcher_->Dispatch({row});
    MutexLock lock(&mutex_);
    notifications_ = dispatcher_->counts();
  }
  changed_ = true;
}

void AppListener::OnRun(const std::string& run, const std::vector<AttemptStatus>& attempts) {
  const AttemptStatus& newest = attempts.back();
  snapshots_->SetRun({.run = run,
                      .state = newest.state,
                      .attempt = newest.attempt,
                      .world_size = newest.world_size,
                      .ranks_connected = newest.ranks_connected});
  changed_ = true;
}

void AppListener::OnRunDeleted(const std::string& run) {
  snapshots_->RemoveRun(run);
  changed_ = true;
}

void AppListener::OnRound() {
  const absl::Time now = clock_->Steady();
  if (!changed_ || now < publish_at_) return;
  snapshots_->Publish();
  changed_ = false;
  publish_at_ = now + kPublishInterval;
}

}  // namespace foreshock
