// What the rules see of a step, or of the clock between two steps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "daemon/model/step.h"
#include "daemon/rules/coverage.h"
#include "daemon/rules/progress.h"
#include "daemon/rules/stored_findings.h"

namespace foreshock::rules {

// Valid during the call that gets it.
struct StepView {
  const model::StepRow& row;
  absl::Span<const model::Finding> findings;
  int64_t step = 0;
  bool settled = false;
  uint32_t model_layers = 0;  // 0: unknown
  uint8_t rebase_causes = 0;  // RebaseCause bits
  std::optional<double> plateau;
  std::optional<double> tokens = {};  // of all steps of the lineage up to this one; absent: unknown
  // Steps between the two weight snapshots of this step's attn.delta* values of a layer; 0: none.
  const absl::flat_hash_map<int32_t, int64_t>& window_steps;
  // Mean of a run-wide indicator over the steps in (base, step]; nullopt if none was seen.
  std::function<std::optional<double>(const std::string& indicator, int64_t base)> mean_since;
  const RankScalars& rank_scalars;
  const Progress& progress;
  const Coverage& coverage;
  const std::vector<uint32_t>& silent_ranks;
};

struct ClockView {
  Life life = Life::kLive;
  std::function<std::vector<uint32_t>()> hindmost;  // the ranks that are farthest back
};

}  // namespace foreshock::rules
