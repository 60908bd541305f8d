// A small run in a store: two attempts, the second resumed at step 60; loss at every step and
// expert shares of two layers at every tenth; three alerts and two events.
#pragma once

#include <string>
#include <vector>

#include "daemon/query/live_state.h"
#include "daemon/store/store.h"
#include "tests/support/status_matchers.h"

namespace foreshock::support {

inline model::ClosedStep StoredStep(const std::string& run, uint32_t attempt, int64_t step) {
  model::ClosedStep closed;
  closed.run = run;
  closed.row.attempt = attempt;
  closed.row.step = step;
  closed.row.time_unix_ns = 1'800'000'000'000'000'000 + step;
  closed.row.tokens = 4096;
  closed.row.ranks = 2;
  closed.row.skipped = step == 5;
  // A binary fraction, exact in float32: attempt 2 differs from attempt 1.
  closed.samples.push_back({{"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""},
                            8.0 - 0.0625 * static_cast<double>(step) + attempt,
                            0});
  if (step % 10 == 0) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      for (int64_t expert = 0; expert < 4; ++expert) {
        closed.samples.push_back({{"load.share", layer, model::Unit::kExpert, expert, ""},
                                  0.25 * static_cast<double>(expert) + layer,
                                  step == 20 ? model::kFlagPartial | model::kFlagSampled : 0u});
      }
    }
  }
  return closed;
}

inline void StoreAlert(const std::string& run, const std::string& id, v1::AlertState state,
                       int64_t step, store::StoreBatch* batch) {
  model::AlertRow row;
  v1::Alert* alert = row.mutable_alert();
  alert->set_id(id);
  alert->set_run(run);
  alert->set_attempt(1);
  alert->set_rule("Delta2EntropyFalls");
  alert->set_severity("warning");
  alert->set_state(state);
  alert->set_pending_step(step);
  batch->alerts.push_back({run, row});
}

// Attempt 1 closed steps 0..99, attempt 2 steps 60..79.
inline void StoreRun(const std::string& run, int64_t created_unix_ns, store::Store* store) {
  store::StoreBatch batch;
  model::RunRow row;
  row.set_name(run);
  row.mutable_model()->set_layers(2);
  row.mutable_model()->set_experts(4);
  (*row.mutable_labels())["team"] = "blue";
  row.set_created_unix_ns(created_unix_ns);
  batch.runs.push_back(row);
  for (uint32_t number : {1u, 2u}) {
    model::AttemptRow attempt;
    attempt.set_number(number);
    attempt.set_launch_id("launch-" + std::to_string(number));
    attempt.set_world_size(2);
    attempt.set_first_step(number == 1 ? 0 : 60);
    attempt.set_last_step(number == 1 ? 99 : 79);
    attempt.set_started_unix_ns(created_unix_ns + number);
    if (number == 1) {
      attempt.set_state(v1::RUN_STATE_FAILED);
    } else {
      attempt.set_parent(1);
    }
    batch.attempts.push_back({run, attempt});
    for (int64_t step = attempt.first_step(); step <= attempt.last_step(); ++step) {
      batch.steps.push_back(StoredStep(run, number, step));
    }
  }
  StoreAlert(run, run + "/old", v1::ALERT_STATE_RESOLVED, 40, &batch);
  StoreAlert(run, run + "/firing", v1::ALERT_STATE_FIRING, 30, &batch);
  StoreAlert(run, run + "/pending", v1::ALERT_STATE_PENDING, 70, &batch);
  for (const int64_t step : {50, 10}) {
    model::EventRow event;
    event.set_attempt(1);
    event.mutable_event()->set_kind(v1::EVENT_KIND_CHECKPOINT_SAVED);
    event.mutable_event()->set_step(step);
    event.mutable_event()->set_name("step-" + std::to_string(step));
    event.set_time_unix_ns(created_unix_ns + step);
    batch.events.push_back({run, event});
  }
  ASSERT_OK(store->Write(batch));
}

// A backtest in name: it says for which run it was asked, and that it was cancelled if it was.
inline absl::StatusOr<v1::BacktestRulesResponse> FakeBacktest(
    const v1::BacktestRulesRequest& request, const std::function<bool()>& cancelled) {
  if (request.run().empty()) return absl::InvalidArgumentError("run: required");
  v1::BacktestRulesResponse response;
  response.add_notes(request.run());
  for (const v1::RuleFile& file : request.files()) response.add_notes(file.name());
  if (cancelled()) response.set_stopped("cancelled");
  return response;
}

inline absl::StatusOr<v1::ExplainResponse> FakeExplain(const v1::ExplainRequest& request,
                                                       const std::function<bool()>& cancelled) {
  if (request.run().empty()) return absl::InvalidArgumentError("run: required");
  v1::ExplainResponse response;
  response.set_measure(request.rule());
  if (request.has_step()) response.set_step(request.step());
  if (cancelled()) response.set_stopped("cancelled");
  return response;
}

class FakeLiveState final : public query::LiveState {
 public:
  std::map<uint32_t, uint32_t> Connected(const std::string& run) const override {
    const auto it = connected.find(run);
    return it == connected.end() ? std::map<uint32_t, uint32_t>{} : it->second;
  }
  std::vector<v1::RuleInfo> Rules() const override { return rules; }
  std::vector<v1::RuleFile> RuleFiles() const override { return rule_files; }
  v1::ListBandsResponse Bands(const std::string& indicator) const override {
    v1::ListBandsResponse response;
    response.add_bands()->set_indicator(indicator);
    return response;
  }
  std::vector<v1::Silence> Silences(bool expired) const override {
    return expired ? std::vector<v1::Silence>{silence, silence} : std::vector{silence};
  }
  // The silence is taken to be one of a run.
  std::vector<std::string> SilencedBy(const v1::Alert& alert) const override {
    const bool matches =
        silence.matchers_size() == 1 && silence.matchers(0) == "run=" + alert.run();
    return matches ? std::vector{silence.id()} : std::vector<std::string>{};
  }
  v1::GetStatusResponse Status() const override { return status; }

  std::map<std::string, std::map<uint32_t, uint32_t>> connected;
  std::vector<v1::RuleInfo> rules;
  std::vector<v1::RuleFile> rule_files;
  v1::GetStatusResponse status;
  v1::Silence silence;
};

}  // namespace foreshock::support
