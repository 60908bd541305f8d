// Alerts' rows for tests of notifiers.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "daemon/model/rows.pb.h"

namespace foreshock::notify {

inline const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

inline v1::Alert FullAlert() {
  v1::Alert alert;
  alert.set_id("a1");
  alert.set_run("exp-42");
  alert.set_rule("Delta2EntropyFalls");
  alert.set_severity("critical");
  alert.set_fault("low_precision_attention");
  alert.set_indicator("attn.delta2.entropy_ratio_l1");
  alert.add_layers(1);
  alert.add_layers(2);
  alert.set_value(0.61);
  alert.set_baseline(0.78);
  alert.set_pending_step(440);
  alert.set_firing_step(460);
  alert.set_resolved_step(900);
  alert.set_last_healthy_step(400);
  alert.set_checkpoint("step-400");
  alert.set_runbook("https://example.org/r");
  return alert;
}

inline std::shared_ptr<model::AlertRow> RowOf(const v1::Alert& alert) {
  auto row = std::make_shared<model::AlertRow>();
  *row->mutable_alert() = alert;
  row->set_fired_unix_ns(absl::ToUnixNanos(kNow));
  return row;
}

// One that fires; `id` also says when it began among others: by its name.
inline std::shared_ptr<model::AlertRow> Firing(const std::string& id,
                                               const std::string& severity = "warning",
                                               const std::string& run = "exp-42") {
  v1::Alert alert;
  alert.set_id(id);
  alert.set_run(run);
  alert.set_rule("Rule" + id);
  alert.set_severity(severity);
  alert.set_state(v1::ALERT_STATE_FIRING);
  auto row = RowOf(alert);
  row->set_undelivered(true);
  return row;
}

}  // namespace foreshock::notify
