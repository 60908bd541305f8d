// A calibration out of what a daemon's store keeps of a run: the sums of RouterCoactivation, per
// attempt and layer. Of RouterLoad and RouterGates it keeps shares and shapes by step, of
// RouterWeights indicators; no counts can be had from them again, so captures are needed for loads.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Pushed pushed,
//                              GatherStored("/var/lib/foreshock", "exp-42", std::nullopt, model));
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proxy/captures.h"
#include "proxy/model.h"

namespace foreshock::proxy {

// Opens the data directory for reading, also beside the daemon that writes to it. `attempt` unset:
// the newest that has sums; attempts are not added, for a resumed one goes over the same text
// again. Errors: as OpenStore; NotFound naming the runs there are, or what the store has and lacks
// of this one; InvalidArgument for another E or top-k.
absl::StatusOr<Pushed> GatherStored(const std::string& directory, const std::string& run,
                                    std::optional<uint32_t> attempt, const Model& model);

}  // namespace foreshock::proxy
