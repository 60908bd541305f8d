#include "daemon/pipeline/declared_events.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/stable_hash.h"

namespace foreshock::pipeline {

uint64_t EventIdentity(const model::EventRow& row) {
  const v1::Event& event = row.event();
  return base::StableHash(absl::StrCat(row.attempt(), "\n", event.step(), "\n", event.kind(), "\n",
                                       event.name().size(), "\n", event.name(), event.detail()));
}

void DeclaredEvents::Restore(const model::EventRow& row) {
  known_.insert(EventIdentity(row));
  if (row.waits()) waiting_.push_back(row);
}

absl::Status DeclaredEvents::Declare(uint32_t attempt, const v1::Event& event, absl::Time now,
                                     store::StoreBatch* batch) {
  model::EventRow row;
  row.set_attempt(attempt);
  *row.mutable_event() = event;
  row.set_time_unix_ns(absl::ToUnixNanos(now));
  row.set_waits(true);
  const uint64_t identity = EventIdentity(row);
  if (!HasRoomFor(identity)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("run '", run_, "' has ", kEventsMax, " events, the limit"));
  }
  if (!known_.insert(identity).second) return absl::OkStatus();
  waiting_.push_back(row);
  batch->events.push_back({run_, std::move(row)});
  return absl::OkStatus();
}

void DeclaredEvents::TakeInForce(const merge::SettledStep& step, bool newest,
                                 model::ClosedStep* closed, store::StoreBatch* batch) {
  if (step.row.late) {
    closed->events.assign(step.merged->events().begin(), step.merged->events().end());
    return;
  }
  for (const v1::Event& event : step.merged->events()) {
    model::EventRow row;
    row.set_attempt(closed->row.attempt);
    *row.mutable_event() = event;
    row.set_time_unix_ns(closed->row.time_unix_ns);
    const uint64_t identity = EventIdentity(row);
    if (!HasRoomFor(identity)) {
      base::LogEvery("pipeline.events", base::LogLevel::kWarning, "pipeline",
                     absl::StrCat("run '", run_, "' has ", kEventsMax,
                                  " events, the limit: more are dropped"));
      continue;
    }
    const size_t waited = std::erase_if(waiting_, [identity](const model::EventRow& other) {
      return EventIdentity(other) == identity;
    });
    if (known_.insert(identity).second || waited > 0) Enforce(std::move(row), closed, batch);
  }
  if (!newest) return;
  std::erase_if(waiting_, [&](const model::EventRow& row) {
    if (row.event().step() > closed->row.step) return false;
    Enforce(row, closed, batch);
    return true;
  });
}

void DeclaredEvents::Enforce(model::EventRow row, model::ClosedStep* closed,
                             store::StoreBatch* batch) const {
  closed->events.push_back(row.event());
  row.set_in_force_step(closed->row.step);
  row.set_in_force_attempt(closed->row.attempt);
  row.set_waits(false);
  batch->events.push_back({run_, std::move(row)});
}

}  // namespace foreshock::pipeline
