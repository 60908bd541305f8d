#include "daemon/exporter/run_metrics.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/model/catalogue.h"
#include "daemon/model/metric_names.h"

namespace foreshock::exporter::internal {
namespace {

enum class Part { kSingle, kMean, kMinMax, kP10, kUnits };

constexpr v1::RunState kStates[] = {v1::RUN_STATE_LIVE, v1::RUN_STATE_SILENT,
                                    v1::RUN_STATE_FINISHED, v1::RUN_STATE_FAILED,
                                    v1::RUN_STATE_PREEMPTED};

std::string StateName(v1::RunState state) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::RunState_Name(state), "RUN_STATE_"));
}

void AddState(const RunSnapshot& run, Families* families) {
  const Labels labels = {{"run", run.run}};
  for (const v1::RunState state : kStates) {
    families->Gauge("foreshock_run_state", "1 for the state the run is in, 0 for the others",
                    {{"run", run.run}, {"state", StateName(state)}}, run.state == state ? 1 : 0);
  }
  families->Gauge("foreshock_run_attempt", "Newest attempt (launch) of the run, from 1", labels,
                  run.attempts);
  families->Gauge("foreshock_run_world_size", "Declared ranks of the newest attempt", labels,
                  run.world_size);
  families->Gauge("foreshock_run_ranks_connected", "Ranks with an open stream", labels,
                  run.ranks_connected);
  if (!run.has_step) return;
  families->Gauge("foreshock_last_step", "Newest closed step of the newest attempt", labels,
                  static_cast<double>(run.last_step));
  families->Gauge("foreshock_last_update_timestamp_seconds",
                  "When the newest step closed, by the daemon's clock; of a step from before its "
                  "start when a rank reported it, by the rank's clock",
                  labels, absl::ToDoubleSeconds(run.last_update - absl::UnixEpoch()));
  families->Gauge("foreshock_run_step_ranks", "Ranks that contributed to the newest step", labels,
                  run.ranks_in_step);
  if (run.world_size > 0) {
    families->Gauge("foreshock_run_coverage_ratio",
                    "Ranks that contributed to the newest step over the declared ranks", labels,
                    static_cast<double>(run.ranks_in_step) / run.world_size);
  }
}

void AddCounts(const RunSnapshot& run, Families* families) {
  const Labels labels = {{"run", run.run}};
  families->Counter("foreshock_run_steps_closed_total", "Steps closed since the daemon started",
                    labels, run.steps_closed);
  families->Counter("foreshock_run_steps_partial_total",
                    "Steps closed by lateness, without all ranks", labels, run.steps_partial);
  families->Counter("foreshock_run_steps_late_total",
                    "Steps merged again because a shard came late", labels, run.steps_late);
  families->Counter("foreshock_run_steps_skipped_total", "Steps whose optimizer update was skipped",
                    labels, run.steps_skipped);
  families->Counter("foreshock_run_tokens_total", "Tokens of the closed steps", labels, run.tokens);
  families->Counter("foreshock_replica_mismatch_total",
                    "Payloads of replicas that should have been equal and were not", labels,
                    run.replica_mismatches);
  for (const auto& [name_rank, count] : run.nonfinite) {
    families->Counter("foreshock_nonfinite_total", "Non-finite elements in what ranks sent",
                      {{"run", run.run}, {"name", name_rank.first}, {"rank", name_rank.second}},
                      count);
  }
  for (const auto& [alert, firing] : run.alerts) {
    families->Gauge("foreshock_alert_firing",
                    "1 while an alert of the rule fires; 0 when pending or resolved",
                    {{"run", run.run},
                     {"rule", alert.rule},
                     {"severity", alert.severity},
                     {"fault", alert.fault}},
                    firing.empty() ? 0 : 1);
  }
}

void AddValidity(const RunSnapshot& run, Families* families) {
  for (const auto& [id, indicator] : run.indicators) {
    const Labels labels = {{"run", run.run}, {"indicator", id}};
    families->Gauge("foreshock_indicator_valid",
                    "1 when the newest values are defined and good enough for rules", labels,
                    indicator.valid ? 1 : 0);
    families->Gauge("foreshock_indicator_last_step", "Newest step with a value", labels,
                    static_cast<double>(indicator.last_step));
  }
}

class IndicatorWriter {
 public:
  IndicatorWriter(const RunSnapshot& run, const std::string& id, Families* families)
      : run_(run), metric_(model::MetricOf(id)), families_(families) {}

  void Add(const IndicatorSnapshot& indicator, Part part) const {
    if (part == Part::kUnits) {
      for (const Offender& offender : indicator.offenders) AddUnit(offender);
      return;
    }
    for (const LayerValues& layer : indicator.layers) AddLayer(layer, part);
  }

 private:
  Labels LabelsOf(int32_t layer) const {
    Labels labels = {{"run", run_.run}};
    if (!metric_.scalar.empty()) labels.emplace_back("name", metric_.scalar);
    if (layer != model::kNoLayer) labels.emplace_back("layer", absl::StrCat(layer));
    return labels;
  }

  void Write(Labels labels, absl::string_view aggregate, double value) const {
    if (!aggregate.empty()) labels.emplace_back("aggregate", std::string(aggregate));
    families_->Gauge(metric_.name, metric_.help, labels, value);
  }

  void AddLayer(const LayerValues& values, Part part) const {
    const Labels labels = LabelsOf(values.layer);
    if (values.unit == model::Unit::kNone) {
      if (part == Part::kSingle) Write(labels, "", values.mean);
    } else if (part == Part::kMean) {
      Write(labels, "mean", values.mean);
    } else if (part == Part::kMinMax) {
      Write(labels, "min", values.min);
      Write(labels, "max", values.max);
    } else if (part == Part::kP10) {
      Write(labels, "p10", values.p10);
    }
  }

  void AddUnit(const Offender& offender) const {
    Labels labels = LabelsOf(offender.layer);
    labels.emplace_back(model::UnitName(offender.unit), offender.unit == model::Unit::kTensor
                                                            ? offender.unit_name
                                                            : absl::StrCat(offender.unit_id));
    Write(std::move(labels), offender.top ? "top" : "bottom", offender.value);
  }

  const RunSnapshot& run_;
  const model::MetricInfo metric_;
  Families* families_;
};

}  // namespace

void AddRuns(const std::vector<std::shared_ptr<const RunSnapshot>>& runs, Families* families) {
  for (const auto& run : runs) AddState(*run, families);
  for (const auto& run : runs) AddCounts(*run, families);
  for (const auto& run : runs) AddValidity(*run, families);
  for (const Part part : {Part::kSingle, Part::kMean, Part::kMinMax, Part::kP10, Part::kUnits}) {
    for (const auto& run : runs) {
      for (const auto& [id, indicator] : run->indicators) {
        IndicatorWriter(*run, id, families).Add(indicator, part);
      }
    }
  }
}

}  // namespace foreshock::exporter::internal
