// What /metrics shows of the runs: an immutable picture, made by SnapshotBuilder on the writer's
// thread and read by scrapes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/model/series.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::exporter {

// The newest values of an indicator in one layer, reduced over its units (heads, experts, ...).
// Without units (Unit::kNone) there is one value and all four are equal.
struct LayerValues {
  int32_t layer = model::kNoLayer;
  model::Unit unit = model::Unit::kNone;
  uint32_t units = 0;  // that had a value
  double min = 0;
  double p10 = 0;  // linear between the closest ranks
  double mean = 0;
  double max = 0;
};

// One of the k largest or smallest units of a layer.
struct Offender {
  int32_t layer = model::kNoLayer;
  model::Unit unit = model::Unit::kNone;
  bool top = true;  // false: of the smallest
  int64_t unit_id = 0;
  std::string unit_name;
  double value = 0;
};

struct IndicatorSnapshot {
  int64_t last_step = 0;
  bool valid = true;  // newest values are defined and carry no flag that keeps them from rules
  std::vector<LayerValues> layers;  // by layer, then unit
  std::vector<Offender> offenders;
};

struct AlertKey {
  std::string rule;
  std::string severity;
  std::string fault;
  friend auto operator<=>(const AlertKey&, const AlertKey&) = default;
};

struct RunSnapshot {
  std::string run;
  v1::RunState state = v1::RUN_STATE_LIVE;
  uint32_t attempts = 0;  // number of the newest one
  uint32_t world_size = 0;
  uint32_t ranks_connected = 0;
  uint32_t ranks_in_step = 0;  // that contributed to the newest step
  bool has_step = false;
  int64_t last_step = 0;                          // newest closed step of the newest attempt
  absl::Time last_update;                         // when it closed, by the daemon's clock
  absl::Time leaves_at = absl::InfiniteFuture();  // from /metrics
  // Since the daemon started.
  uint64_t steps_closed = 0;
  uint64_t steps_partial = 0;
  uint64_t steps_late = 0;
  uint64_t steps_skipped = 0;
  uint64_t tokens = 0;
  uint64_t replica_mismatches = 0;
  std::map<std::pair<std::string, std::string>, uint64_t> nonfinite;  // (name, rank or "other")
  std::map<AlertKey, std::set<std::string>> alerts;     // ids that are firing; empty: none is now
  std::map<std::string, IndicatorSnapshot> indicators;  // by id
};

struct Snapshot {
  std::vector<std::shared_ptr<const RunSnapshot>> runs;               // newest update first
  std::map<std::pair<std::string, std::string>, uint64_t> undefined;  // (indicator, reason)
};

}  // namespace foreshock::exporter
