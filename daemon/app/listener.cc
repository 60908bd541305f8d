#include "daemon/app/listener.h"

namespace foreshock {
namespace {

// A scrape sees values at most this old; a busy run commits thousands of times a second.
constexpr absl::Duration kPublishInterval = absl::Milliseconds(200);

// A run that has ended, or that no rank has spoken for.
constexpr absl::Duration kEndedRepeated = absl::Minutes(15);
constexpr absl::Duration kSilentRepeated = absl::Hours(24);

}  // namespace

absl::Time QuietFrom(v1::RunState state, absl::Time now) {
  switch (state) {
    case v1::RUN_STATE_FINISHED:
    case v1::RUN_STATE_FAILED:
    case v1::RUN_STATE_PREEMPTED:
      return now + kEndedRepeated;
    case v1::RUN_STATE_SILENT:
      return now + kSilentRepeated;
    default:
      return absl::InfiniteFuture();
  }
}

void AppListener::OnStep(const ClosedStep& step) {
  snapshots_->Observe(step);
  changed_ = true;
}

void AppListener::OnAlert(const model::AlertRow& row, bool restored) {
  snapshots_->SetAlert(row.alert());
  if (!restored) outbox_->Offer(row);
  changed_ = true;
}

void AppListener::OnRun(const std::string& run, const std::vector<AttemptStatus>& attempts) {
  const AttemptStatus& newest = attempts.back();
  snapshots_->SetRun({.run = run,
                      .state = newest.state,
                      .attempt = newest.attempt,
                      .world_size = newest.world_size,
                      .ranks_connected = newest.ranks_connected});
  outbox_->SetQuiet(run, QuietFrom(newest.state, clock_->Now()));
  // A run is first heard of as it was before: what a restart reads back is no news.
  uint32_t& known = attempts_[run];
  if (known != 0 && newest.attempt > known && attempts.size() > 1) {
    outbox_->OfferChange({.run = run,
                          .attempt = newest.attempt,
                          .world_size = newest.world_size,
                          .resume_step = newest.resume_step,
                          .last_step = attempts[attempts.size() - 2].last_step,
                          .at = clock_->Now()});
  }
  known = newest.attempt;
  changed_ = true;
}

void AppListener::OnRunDeleted(const std::string& run) {
  snapshots_->RemoveRun(run);
  outbox_->DropRun(run);
  attempts_.erase(run);
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
