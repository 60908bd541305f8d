// Which experts to keep: the selectors.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Plan plan,
//                              Select(checkpoint, model, calibration, {.keep = 32}));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/calibration.h"
#include "proxy/distance.h"
#include "proxy/model.h"
#include "proxy/plan.h"

namespace foreshock::proxy {

struct SelectOptions {
  int keep = 0;
  // cluster, router-only, frequency, gate-mass, reap, activation-norm, random, first-k
  std::string selector = "cluster";
  // Weights of the views; 0 leaves a view out.
  double router_weight = 1;
  double coactivation_weight = 1;
  double context_weight = 1;
  bool centre_router = true;
  Coactivation coactivation = Coactivation::kProfile;
  bool weigh_by_frequency = false;  // the cost of an expert counts as often as it is chosen
  bool medoid_represents = false;   // else the most frequent within 1.1 of the medoid's cost
  int64_t seen_least = 32;          // fewer tokens: unseen
  uint64_t seed = 0;                // of `random`
  int expert_parallel = 1;
};

std::vector<std::string> Selectors();

// One layer. `router` is [E, d]; `stats` may be null where the selector needs none, and then
// decides nothing. Warnings are appended.
absl::StatusOr<LayerPlan> SelectLayer(int layer, const Matrix& router, const LayerStats* stats,
                                      int groups, const SelectOptions& options,
                                      std::vector<std::string>* warnings);

// All layers. A prediction layer that the calibration lacks takes the plan of the layer before it.
absl::StatusOr<Plan> Select(const Checkpoint& checkpoint, const Model& model,
                            const Calibration& calibration, const SelectOptions& options);

}  // namespace foreshock::proxy
