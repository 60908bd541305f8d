// A calibration out of what the ranks of a run pushed anyway: RouterCoactivation and RouterLoad, as
// captures hold them. No pass over text is needed; inputs and output norms are not known then.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Pushed pushed, GatherCaptures({"run.fscap"}, model, {}));
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/calibration.h"
#include "proxy/model.h"

namespace foreshock::proxy {

struct GatherOptions {
  int64_t first_step = 0;
  int64_t last_step = std::numeric_limits<int64_t>::max();
  bool loads_only = false;  // leave co-activation aside: it is pushed rarely, loads often
};

struct Pushed {
  std::map<int, LayerStats> layers;
  std::vector<std::string> warnings;
};

// Of a layer's tokens one kind is counted: those with co-activation, where there are any, else
// those with loads; so that the sums belong together. Replicas (the same run, step, layer and token
// shard) count once; evaluation and recomputed reports do not. InvalidArgument, with the file, for
// numbers that contradict each other or another E or top-k.
absl::StatusOr<Pushed> GatherCaptures(const std::vector<std::string>& paths, const Model& model,
                                      const GatherOptions& options);

// The sums of one layer out of counts of pairs: `coactivation` [E, E], symmetric, its diagonal
// unused. InvalidArgument where they are not those of `tokens` tokens with k experts each.
absl::StatusOr<LayerStats> StatsFromPairs(const Matrix& coactivation, double tokens,
                                          std::optional<Vector> gates, int top_k);

}  // namespace foreshock::proxy
