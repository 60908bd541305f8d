// Under which name and help an indicator stands on /metrics.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace foreshock::model {

struct MetricInfo {
  std::string name;
  std::string help;
  std::string scalar;  // label `name`, for scalars that have no metric of their own
};

// Names are fixed, never made from data: a scalar outside the documented ones is
// foreshock_train_scalar{name="..."} (foreshock_eval_train_scalar in evaluation).
MetricInfo MetricOf(absl::string_view indicator);

}  // namespace foreshock::model
