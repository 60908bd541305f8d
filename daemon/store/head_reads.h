// Reads heads: the rows of closed steps that are not in chunks yet, turned from step order into
// series order.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/store/chunk_rows.h"
#include "daemon/store/lineage.h"
#include "daemon/store/read_view.h"

namespace foreshock::store {

// Per stretch: the rows inside it, in step order. Each step is there once, as it was written last.
template <typename Row>
using OpenRows = std::vector<std::vector<Row>>;

// Returns the points of the series by their place in `series` (ids in rising order), then by
// stretch. It reads the heads of the stretches' attempts once. DataLoss names a corrupt head.
absl::StatusOr<std::vector<OpenRows<ChunkPoint>>> ReadOpenPoints(
    const ReadView& view, uint32_t run, absl::Span<const Stretch> stretches,
    absl::Span<const uint32_t> series);

absl::StatusOr<OpenRows<model::StepRow>> ReadOpenSteps(const ReadView& view, uint32_t run,
                                                       absl::Span<const Stretch> stretches);

// Sorts rows by step. Rows come in the order of their writing, and the last of each step is kept.
template <typename Row>
void KeepNewest(std::vector<Row>* rows);

extern template void KeepNewest(std::vector<ChunkPoint>* rows);
extern template void KeepNewest(std::vector<model::StepRow>* rows);

}  // namespace foreshock::store
