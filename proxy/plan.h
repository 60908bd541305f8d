// plan.json: which experts of each layer a proxy keeps, and why. A plan that is read is not
// trusted.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Plan plan, ParsePlan("plan.json", text));
//   FORESHOCK_RETURN_IF_ERROR(CheckPlan(plan, checkpoint, model));
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "proxy/checkpoint.h"
#include "proxy/model.h"

namespace foreshock::proxy {

struct LayerPlan {
  int layer = 0;
  std::vector<int> kept;  // ascending; the expert's new index is its position
  // Of the selectors that cluster, else empty. Cluster c is that of kept[c], its representative.
  std::vector<int> cluster;                            // of every expert
  std::vector<int> medoids;                            // of every cluster
  std::vector<std::pair<std::string, double>> scales;  // the median by which each view was divided
  std::vector<int> unseen;                             // experts with too few tokens
  // Mean probability that the router gives to the kept experts, in [0, 1], where it is known.
  std::optional<double> kept_probability;
};

struct Plan {
  std::string model_type;
  int experts = 0;
  int keep = 0;
  int top_k = 0;
  std::string selector;
  nlohmann::ordered_json settings;  // of the selector: views, weights, seed
  std::string source_sha256;
  std::vector<std::string> calibration_sha256;
  std::vector<LayerPlan> layers;  // ascending
  std::vector<std::string> warnings;
};

// The same plan gives the same text, byte for byte.
std::string FormatPlan(const Plan& plan);

// Errors are InvalidArgument and name `file`, the layer and the key. What is returned is
// consistent in itself, and FormatPlan gives its text again.
absl::StatusOr<Plan> ParsePlan(absl::string_view file, absl::string_view text);

// Whether the plan is of this checkpoint and keeps as many experts of each group.
absl::Status CheckPlan(const Plan& plan, const Checkpoint& checkpoint, const Model& model);

}  // namespace foreshock::proxy
