// The half of a report that needs both models to run: what foreshock.proxy_report in Python wrote.
// docs/proxy.md says what its numbers are.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proxy/plan.h"

namespace foreshock::proxy {

// {"tokens", "output", "layers"} of the file. InvalidArgument where it is of another plan than the
// one with that SHA-256, or lacks a number that the report shows; a number may be null.
absl::StatusOr<nlohmann::ordered_json> ReadForward(const std::string& path, const Plan& plan,
                                                   const std::string& plan_sha256);

}  // namespace foreshock::proxy
