// Says from which attempt each step of a range is read where attempts overlap.
//
//   attempts 1 [0, 100], 2 [61, 80], range 0..200  ->  {1, 0, 60} {2, 61, 80} {1, 81, 100}
//
// The stretches are disjoint, in step order and inside `range`. A step belongs to the newest
// attempt whose closed steps include it, even if that attempt has no point there: the value of an
// older attempt is of weights that were thrown away. Takes O(n^2) for n attempts. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "daemon/model/rows.pb.h"
#include "daemon/store/store.h"

namespace foreshock::store {

struct Stretch {
  uint32_t attempt = 0;
  int64_t first = 0;  // inclusive
  int64_t last = 0;   // inclusive
  friend bool operator==(const Stretch&, const Stretch&) = default;
};

// With range.attempt set, that attempt over the whole range. `attempts` may be in any order.
std::vector<Stretch> Stretches(absl::Span<const model::AttemptRow> attempts,
                               const StepRange& range);

}  // namespace foreshock::store
