// Store::Points, Buckets and Steps over one view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/store/read_view.h"
#include "daemon/store/store.h"

namespace foreshock::store {

absl::Status ReadPoints(const ReadView& view, uint32_t run, absl::Span<const SeriesKey> series,
                        const StepRange& range,
                        const std::function<bool(size_t, const Point&)>& visit);

// `bucket_steps` has been checked.
absl::Status ReadBuckets(const ReadView& view, uint32_t run, absl::Span<const SeriesKey> series,
                         const StepRange& range, int64_t bucket_steps,
                         const std::function<bool(size_t, const Bucket&)>& visit);

absl::Status ReadSteps(const ReadView& view, uint32_t run, const StepRange& range,
                       const std::function<bool(const StepRow&)>& visit);

}  // namespace foreshock::store
