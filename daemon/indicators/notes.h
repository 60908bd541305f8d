// What summarise notes beside statistics: findings (non-finite input) and undefined indicators.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "daemon/indicators/summarise.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// `count` non-finite elements in `name` ("qk_factors.q", or a scalar or tensor name); nothing when
// count is 0. layer and head: -1 when they do not apply.
void AddNonFinite(const SummariseContext& context, absl::string_view name, int32_t layer,
                  int32_t head, uint64_t count, model::StepShards* out);

// Counts `indicator` (an id or a family) as undefined for `reason`.
void AddUndefined(absl::string_view indicator, absl::string_view reason, uint64_t count,
                  model::StepShards* out);

}  // namespace foreshock::indicators
