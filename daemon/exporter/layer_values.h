// From the values of one layer's units to what /metrics shows of them. Internal to exporter/.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "daemon/exporter/snapshot.h"
#include "daemon/model/series.h"

namespace foreshock::exporter::internal {

// `samples`: at least one, all of one indicator, layer and unit. p10 is exact; O(n).
LayerValues Reduce(absl::Span<const model::Sample> samples);

// Appends the k largest and smallest units of the indicators for which single units are worth
// showing (see docs/metrics.md), most extreme first; equal values by unit.
void AppendOffenders(absl::Span<const model::Sample> samples, size_t k,
                     std::vector<Offender>* offenders);

}  // namespace foreshock::exporter::internal
