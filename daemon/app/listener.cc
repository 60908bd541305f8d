#include "daemon/app/listener.h"

#include <algorithm>
#include <utility>

#include "daemon/app/newest_values.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"

namespace foreshock::app {
namespace {

// A scrape sees values at most this old; a busy run commits thousands of times a second.
constexpr absl::Duration kPublishInterval = absl::Milliseconds(200);

}  // namespace

std::optional<notify::RunEnd> RunEndOf(v1::RunState state, const exporter::SnapshotOptions& options,
                                       absl::Time now) {
  switch (state) {
    case v1::RUN_STATE_FINISHED:
      return notify::RunEnd{"the run finished", now, now + options.finished_stay};
    case v1::RUN_STATE_FAILED:
      return notify::RunEnd{"the run failed", now, now + options.finished_stay};
    case v1::RUN_STATE_PREEMPTED:
      return notify::RunEnd{"the run was preempted", now, now + options.finished_stay};
    case v1::RUN_STATE_SILENT:
      return notify::RunEnd{"no rank speaks for the run any more", now, now + options.silent_stay};
    default:
      return std::nullopt;
  }
}

absl::Status FillOutbox(const store::Store& store, const exporter::SnapshotOptions& options,
                        absl::Time now, notify::Outbox* outbox) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::RunRow> runs, store.Runs());
  for (const model::RunRow& run : runs) {
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts,
                               store.Attempts(run.name()));
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AlertRow> rows, store.Alerts(run.name()));
    const v1::RunState state = attempts.empty() ? v1::RUN_STATE_FINISHED : attempts.back().state();
    const bool ended = state != v1::RUN_STATE_UNSPECIFIED;
    for (const model::AlertRow& row : rows) {
      const bool goes_on = row.alert().state() == v1::ALERT_STATE_FIRING && !ended;
      if (row.undelivered() || goes_on) outbox->Offer(row);
    }
    if (ended) outbox->SetRunEnd(run.name(), RunEndOf(state, options, now));
  }
  return absl::OkStatus();
}

void AppListener::OnStep(const model::ClosedStep& step) {
  snapshots_->Observe(step);
  changed_ = true;
}

void AppListener::OnAlert(const model::AlertRow& row, bool restored) {
  snapshots_->SetAlert(row.alert());
  if (!restored) outbox_->Offer(row);
  changed_ = true;
}

void AppListener::OnRun(const std::string& run,
                        const std::vector<pipeline::AttemptStatus>& attempts) {
  const pipeline::AttemptStatus& newest = attempts.back();
  snapshots_->SetRun({.run = run,
                      .state = newest.state,
                      .attempt = newest.attempt,
                      .world_size = newest.world_size,
                      .ranks_connected = newest.ranks_connected});
  // A run is first heard of as it was before: what a restart reads back is no news.
  Known& known = known_[run];
  if (known.attempt == 0) ShowNewest(run, newest);
  TellEnd(run, newest.state, &known);
  if (known.attempt != 0 && newest.attempt > known.attempt && attempts.size() > 1) {
    outbox_->OfferChange({.run = run,
                          .attempt = newest.attempt,
                          .world_size = newest.world_size,
                          .resume_step = newest.resume_step,
                          .last_step = attempts[attempts.size() - 2].last_step,
                          .at = clock_->Now()});
  }
  known.attempt = newest.attempt;
  known.state = newest.state;
  changed_ = true;
}

// A restart takes nothing off /metrics: a run that goes on shows its alerts and its newest stored
// values until the next step.
void AppListener::ShowNewest(const std::string& run, const pipeline::AttemptStatus& attempt) {
  const bool goes_on = attempt.state == v1::RUN_STATE_LIVE || attempt.state == v1::RUN_STATE_SILENT;
  if (!goes_on || !attempt.last_step.has_value()) return;
  const absl::StatusOr<std::vector<model::ClosedStep>> steps =
      NewestValues(*store_, run, attempt.attempt, *attempt.last_step);
  if (!steps.ok()) {
    base::LogWarning("app", "/metrics shows no values of a run until its next step",
                     {{"run", run}, {"error", std::string(steps.status().message())}});
    return;
  }
  for (const model::ClosedStep& step : *steps) snapshots_->Restore(step);
  const absl::StatusOr<std::vector<model::AlertRow>> alerts = store_->Alerts(run);
  if (!alerts.ok()) return;  // those that fire are told one by one
  for (const model::AlertRow& row : *alerts) snapshots_->SetAlert(row.alert());
}

void AppListener::TellEnd(const std::string& run, v1::RunState state, Known* known) {
  if (state == known->state) return;  // it ended when it ended
  const absl::Time now = clock_->Now();
  const std::optional<notify::RunEnd> end = RunEndOf(state, options_, now);
  outbox_->SetRunEnd(run, end);
  if (end.has_value()) {
    // Of one that is heard of as ended the process before this one has told.
    const bool first = known->state == v1::RUN_STATE_UNSPECIFIED;
    known->told_from = std::min(known->told_from, first ? absl::InfinitePast() : end->told_at);
    return;
  }
  if (now < std::exchange(known->told_from, absl::InfiniteFuture())) return;
  // What fired when it ended may have been told as over; an alert that fires on is no news by
  // itself.
  const absl::StatusOr<std::vector<model::AlertRow>> rows = store_->Alerts(run);
  if (!rows.ok()) {
    base::LogError("app", "alerts that fire on in a run that goes on are not told until a restart",
                   {{"run", run}, {"error", std::string(rows.status().message())}});
    return;
  }
  for (const model::AlertRow& row : *rows) {
    if (row.alert().state() == v1::ALERT_STATE_FIRING) outbox_->Offer(row);
  }
}

void AppListener::OnRunDeleted(const std::string& run) {
  snapshots_->RemoveRun(run);
  outbox_->DropRun(run);
  known_.erase(run);
  changed_ = true;
}

void AppListener::OnRound() {
  const absl::Time now = clock_->Steady();
  if (!changed_ || now < publish_at_) return;
  snapshots_->Publish();
  changed_ = false;
  publish_at_ = now + kPublishInterval;
}

}  // namespace foreshock::app
