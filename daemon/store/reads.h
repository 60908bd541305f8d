// The reads of Store that go over more than one kind of row, over one view. Errors are those of
// Store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/model/series.h"
#include "daemon/model/shards.pb.h"
#include "daemon/store/read_view.h"
#include "daemon/store/store.h"

namespace foreshock::store {

// As Store::OpenReports.
absl::Status ReadOpenReports(const ReadView& view, uint32_t run, uint32_t attempt,
                             const std::function<bool(const model::ShardReport&)>& visit);

absl::StatusOr<std::vector<model::SeriesKey>> ReadSeries(const ReadView& view, uint32_t run,
                                                         const SeriesFilter& filter);

absl::Status ReadPoints(const ReadView& view, uint32_t run,
                        absl::Span<const model::SeriesKey> series, const StepRange& range,
                        const std::function<bool(size_t, const model::Point&)>& visit);

// `bucket_steps`: one that CheckBucketSteps lets pass.
absl::Status ReadBuckets(const ReadView& view, uint32_t run,
                         absl::Span<const model::SeriesKey> series, const StepRange& range,
                         int64_t bucket_steps,
                         const std::function<bool(size_t, const Bucket&)>& visit);

absl::Status ReadSteps(const ReadView& view, uint32_t run, const StepRange& range,
                       const std::function<bool(const model::StepRow&)>& visit);

}  // namespace foreshock::store
