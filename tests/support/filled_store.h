// Runs in a store, large enough to have chunks.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/store/store.h"
#include "tests/support/status_matchers.h"

namespace foreshock::support {

inline const absl::Time kFilledNow = absl::FromUnixSeconds(2'000'000'000);

struct FilledRun {
  std::string name{};
  int64_t first_step = 0;
  int64_t last_step = 0;
  int series = 4;
  uint32_t attempt = 1;
  bool ended = true;
  bool fold = true;
  absl::Time last_time{};                     // of the last step
  absl::Duration between = absl::Seconds(1);  // two steps
};

inline model::SeriesKey FilledSeries(int number) {
  return {"router.token_entropy", number, model::Unit::kNone, 0, ""};
}

// Values that do not compress to nothing.
inline double FilledValue(int series, int64_t step) {
  return static_cast<float>(std::sin(static_cast<double>(step * 7919 + series * 104729)));
}

inline std::vector<model::SeriesKey> FilledSeriesOf(const FilledRun& run) {
  std::vector<model::SeriesKey> series;
  for (int s = 0; s < run.series; ++s) series.push_back(FilledSeries(s));
  return series;
}

// Writes the run, with an alert, an event, a rank and what its rules remember, and folds it.
inline void FillRun(const FilledRun& run, store::Store* store) {
  store::StoreBatch batch;
  model::RunRow row;
  row.set_name(run.name);
  row.set_created_unix_ns(1);
  batch.runs.push_back(row);
  model::AttemptRow attempt;
  attempt.set_number(run.attempt);
  attempt.set_first_step(0);
  attempt.set_last_step(run.last_step);
  if (run.ended) attempt.set_state(v1::RUN_STATE_FINISHED);
  batch.attempts.push_back({run.name, attempt});
  model::RankRow rank;
  rank.set_client_instance("c1");
  batch.ranks.push_back({run.name, run.attempt, rank});
  model::AlertRow alert;
  alert.mutable_alert()->set_id(run.name + "/alert");
  alert.mutable_alert()->set_run(run.name);
  alert.mutable_alert()->set_attempt(run.attempt);
  batch.alerts.push_back({run.name, alert});
  model::EventRow event;
  event.set_attempt(run.attempt);
  event.mutable_event()->set_name("e");
  batch.events.push_back({run.name, event});
  model::CoactivationRow coactivation;
  coactivation.set_layer(1);
  batch.coactivation.push_back({run.name, run.attempt, coactivation});
  model::JudgingRow judging;
  judging.set_attempt(run.attempt);
  judging.set_step(run.last_step);
  judging.set_memory("memory of " + run.name);
  batch.judging.push_back({run.name, judging});
  for (int64_t step = run.first_step; step <= run.last_step; ++step) {
    model::ClosedStep closed;
    closed.run = run.name;
    closed.row.attempt = run.attempt;
    closed.row.step = step;
    closed.row.time_unix_ns =
        absl::ToUnixNanos(run.last_time - run.between * (run.last_step - step));
    for (int s = 0; s < run.series; ++s) {
      closed.samples.push_back({FilledSeries(s), FilledValue(s, step), 0});
    }
    batch.steps.push_back(std::move(closed));
    if (batch.steps.size() < 4096 && step < run.last_step) continue;
    ASSERT_OK(store->Write(batch));
    batch = {};
  }
  if (run.fold) {
    ASSERT_OK(store->Fold(run.name));
  }
}

}  // namespace foreshock::support
