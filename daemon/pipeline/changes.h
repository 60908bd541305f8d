// What one round of the writer changes; it grows until it is committed.
#pragma once

#include <vector>

#include "daemon/model/rows.pb.h"
#include "daemon/store/store.h"

namespace foreshock::pipeline {

struct Changes {
  store::StoreBatch batch;
  std::vector<model::AlertRow> alerts;  // of the batch, those that listeners want to hear of
};

}  // namespace foreshock::pipeline
