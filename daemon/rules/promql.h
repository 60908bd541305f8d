// A rule in PromQL over the gauges of /metrics: an approximation in wall time of what the daemon
// judges in steps, for fleets that evaluate centrally.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/rules/rule.h"

namespace foreshock::rules {

// How steps become wall time, and what is exported.
struct PromqlOptions {
  double step_seconds = 10;      // > 0
  int64_t sample_steps = 50;     // between two samples of attn.*, router.* and tensor.*; >= 1
  int64_t warm_up_steps = 2000;  // nothing before it is judged, or taken for a baseline
  std::string severity_min = "warning";  // what is less severe is left out
  int64_t keep_firing_seconds = 300;     // what the daemon says outlives its restarts so long
};

struct PromqlAlert {
  // Recording rules that the expression needs, (name, expression), in order.
  std::vector<std::pair<std::string, std::string>> records;
  std::string expression;
  int64_t for_seconds = 0;
  int64_t keep_firing_seconds = 0;
};

// InvalidArgument with the reason, as the end of a sentence, when the gauges do not say enough.
absl::StatusOr<PromqlAlert> RuleToPromql(const Rule& rule, const PromqlOptions& options);

// "90s", "4h".
std::string PromqlDuration(int64_t seconds);

}  // namespace foreshock::rules
