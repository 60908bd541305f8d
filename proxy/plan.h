// plan.json: which experts of each layer a proxy keeps, and why.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace foreshock::proxy {

struct LayerPlan {
  int layer = 0;
  std::vector<int> kept;  // ascending; the expert's new index is its position
  // Of the selectors that cluster, else empty. Cluster c is that of kept[c], its representative.
  std::vector<int> cluster;                            // of every expert
  std::vector<int> medoids;                            // of every cluster
  std::vector<std::pair<std::string, double>> scales;  // the median by which each view was divided
  std::vector<int> unseen;                             // experts with too few tokens
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

}  // namespace foreshock::proxy
