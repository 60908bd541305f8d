// How many alerts fire, by what they ask of a person: critical ones and warnings that he look,
// infos nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/text.h"

namespace foreshock::cli {

struct FiringCounts {
  uint32_t critical = 0;
  uint32_t warning = 0;
  uint32_t info = 0;
};

// 3 for critical, 2 for warning, 1 for info, else 0.
int Gravity(const std::string& severity);

Style SeverityStyle(const std::string& severity);

// Of those of `alerts` that fire, by run.
std::map<std::string, FiringCounts> CountFiring(
    const google::protobuf::RepeatedPtrField<v1::Alert>& alerts);

// Asks the daemon: of one run, or of all if `run` is empty.
absl::StatusOr<std::map<std::string, FiringCounts>> ReadFiring(Connection& daemon,
                                                               const std::string& run);

// Warnings and critical ones as one number in the colour of the gravest, painted.
std::string FiringText(const FiringCounts& counts);

}  // namespace foreshock::cli
