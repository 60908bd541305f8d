// What one round of the writer changes, and how much of it fits into one round.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/model/rows.pb.h"
#include "daemon/store/store.h"

namespace foreshock::pipeline {

// Grows until it is committed.
struct Changes {
  store::StoreBatch batch;
  std::vector<model::AlertRow> alerts;  // of the batch, those that listeners want to hear of
  size_t points = 0;                    // in the steps of the batch
};

// When a round has done enough: what is more waits for the next one, so that nobody's ack waits for
// somebody else's backlog. By default never.
struct Budget {
  size_t points_max = SIZE_MAX;
  absl::Time until = absl::InfiniteFuture();  // SteadyNow()

  bool SpentBy(const Changes& changes) const {
    return changes.points >= points_max ||
           (until != absl::InfiniteFuture() && base::SteadyNow() >= until);
  }
};

}  // namespace foreshock::pipeline
