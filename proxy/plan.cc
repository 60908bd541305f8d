#include "proxy/plan.h"

namespace foreshock::proxy {

std::string FormatPlan(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  Json layers = Json::array();
  for (const LayerPlan& layer : plan.layers) {
    Json row = {{"layer", layer.layer}, {"kept", layer.kept}};
    if (!layer.cluster.empty()) {
      row["cluster"] = layer.cluster;
      row["medoids"] = layer.medoids;
      row["representatives"] = layer.kept;
      row["scales"] = Json::object();
      for (const auto& [view, scale] : layer.scales) row["scales"][view] = scale;
    }
    row["unseen"] = layer.unseen;
    layers.push_back(row);
  }
  const Json json = {{"format", "foreshock.plan.v1"},
                     {"model_type", plan.model_type},
                     {"experts", plan.experts},
                     {"keep", plan.keep},
                     {"top_k", plan.top_k},
                     {"selector", plan.selector},
                     {"settings", plan.settings},
                     {"source_sha256", plan.source_sha256},
                     {"calibration_sha256", plan.calibration_sha256},
                     {"warnings", plan.warnings},
                     {"layers", layers}};
  return json.dump(1) + "\n";
}

}  // namespace foreshock::proxy
