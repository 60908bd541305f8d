#include "proxy/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "proxy/json.h"

namespace foreshock::proxy {
namespace {

using PlanJson = nlohmann::ordered_json;

constexpr char kPlanFormat[] = "foreshock.plan.v1";
constexpr int kPlanExpertsMax = 65536;
constexpr int kPlanLayerMax = 1 << 20;

absl::Status WrongKey(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", key, "' ", what));
}

// Every key of `keys` is there, and no other but those of `optional`.
absl::Status CheckKeys(const PlanJson& object, const std::vector<std::string>& keys,
                       const std::vector<std::string>& optional) {
  if (!object.is_object()) return absl::InvalidArgumentError("is not an object");
  for (const std::string& key : keys) {
    if (!object.contains(key)) return WrongKey(key, "is missing");
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end() &&
        std::find(optional.begin(), optional.end(), key) == optional.end()) {
      return WrongKey(key, "is not known");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PlanInt(const PlanJson& value, absl::string_view key, int least, int most) {
  if (!value.is_number_integer() || value.get<double>() < least || value.get<double>() > most) {
    return WrongKey(key, absl::StrCat("is ", value.dump(), "; allowed are ", least, " to ", most));
  }
  return value.get<int>();
}

absl::StatusOr<std::string> PlanText(const PlanJson& object, const std::string& key) {
  if (!object[key].is_string()) return WrongKey(key, "is not a text");
  return object[key].get<std::string>();
}

absl::StatusOr<std::vector<std::string>> PlanTexts(const PlanJson& object, const std::string& key) {
  if (!object[key].is_array()) return WrongKey(key, "is not a list");
  std::vector<std::string> texts;
  for (const PlanJson& value : object[key]) {
    if (!value.is_string()) return WrongKey(key, "has an element that is not a text");
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

// `size` numbers from 0 to limit - 1; any count of them where `size` is negative.
absl::StatusOr<std::vector<int>> PlanInts(const PlanJson& object, const std::string& key, int size,
                                          int limit) {
  if (!object[key].is_array()) return WrongKey(key, "is not a list");
  std::vector<int> values;
  for (const PlanJson& value : object[key]) {
    FORESHOCK_ASSIGN_OR_RETURN(const int number, PlanInt(value, key, 0, limit - 1));
    values.push_back(number);
  }
  if (size >= 0 && static_cast<int>(values.size()) != size) {
    return WrongKey(key, absl::StrCat("has ", values.size(), " elements, must have ", size));
  }
  return values;
}

absl::Status CheckAscending(const std::vector<int>& values, absl::string_view key) {
  if (std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end()) {
    return absl::OkStatus();
  }
  return WrongKey(key, "is not in ascending order");
}

absl::StatusOr<double> PlanNumber(const PlanJson& value, absl::string_view key, double most) {
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > most) {
    return WrongKey(key, absl::StrCat("is ", value.dump(), "; allowed are 0 to ", most));
  }
  return value.get<double>();
}

absl::StatusOr<LayerPlan> ParseLayer(const PlanJson& row, const Plan& plan) {
  FORESHOCK_RETURN_IF_ERROR(
      CheckKeys(row, {"layer", "kept", "unseen"},
                {"cluster", "medoids", "representatives", "scales", "kept_probability"}));
  LayerPlan layer;
  FORESHOCK_ASSIGN_OR_RETURN(layer.layer, PlanInt(row["layer"], "layer", 0, kPlanLayerMax));
  FORESHOCK_ASSIGN_OR_RETURN(layer.kept, PlanInts(row, "kept", plan.keep, plan.experts));
  FORESHOCK_RETURN_IF_ERROR(CheckAscending(layer.kept, "kept"));
  FORESHOCK_ASSIGN_OR_RETURN(layer.unseen, PlanInts(row, "unseen", -1, plan.experts));
  FORESHOCK_RETURN_IF_ERROR(CheckAscending(layer.unseen, "unseen"));
  if (row.contains("kept_probability")) {
    FORESHOCK_ASSIGN_OR_RETURN(layer.kept_probability,
                               PlanNumber(row["kept_probability"], "kept_probability", 1));
  }
  if (!row.contains("cluster")) {
    if (row.contains("medoids") || row.contains("representatives") || row.contains("scales")) {
      return WrongKey("cluster", "is missing");
    }
    return layer;
  }
  FORESHOCK_RETURN_IF_ERROR(
      CheckKeys(row, {"layer", "kept", "cluster", "medoids", "representatives", "scales", "unseen"},
                {"kept_probability"}));
  FORESHOCK_ASSIGN_OR_RETURN(layer.cluster, PlanInts(row, "cluster", plan.experts, plan.keep));
  FORESHOCK_ASSIGN_OR_RETURN(layer.medoids, PlanInts(row, "medoids", plan.keep, plan.experts));
  if (row["representatives"] != row["kept"]) {
    return WrongKey("representatives", "must be the same as 'kept'");
  }
  for (size_t c = 0; c < layer.kept.size(); ++c) {
    for (const int member : {layer.kept[c], layer.medoids[c]}) {
      if (layer.cluster[static_cast<size_t>(member)] == static_cast<int>(c)) continue;
      return WrongKey("cluster", absl::StrCat("puts expert ", member, " into cluster ",
                                              layer.cluster[static_cast<size_t>(member)],
                                              ", which represents cluster ", c));
    }
  }
  if (!row["scales"].is_object()) return WrongKey("scales", "is not an object");
  for (const auto& [view, scale] : row["scales"].items()) {
    FORESHOCK_ASSIGN_OR_RETURN(const double value, PlanNumber(scale, "scales", 1e300));
    layer.scales.emplace_back(view, value);
  }
  return layer;
}

absl::StatusOr<Plan> ParseWhole(const PlanJson& json) {
  FORESHOCK_RETURN_IF_ERROR(
      CheckKeys(json,
                {"format", "model_type", "experts", "keep", "top_k", "selector", "settings",
                 "source_sha256", "calibration_sha256", "warnings", "layers"},
                {}));
  Plan plan;
  FORESHOCK_ASSIGN_OR_RETURN(const std::string format, PlanText(json, "format"));
  if (format != kPlanFormat) {
    return WrongKey("format", absl::StrCat("is '", format, "', must be '", kPlanFormat, "'"));
  }
  FORESHOCK_ASSIGN_OR_RETURN(plan.model_type, PlanText(json, "model_type"));
  FORESHOCK_ASSIGN_OR_RETURN(plan.experts, PlanInt(json["experts"], "experts", 1, kPlanExpertsMax));
  FORESHOCK_ASSIGN_OR_RETURN(plan.keep, PlanInt(json["keep"], "keep", 1, plan.experts));
  FORESHOCK_ASSIGN_OR_RETURN(plan.top_k, PlanInt(json["top_k"], "top_k", 1, plan.experts));
  FORESHOCK_ASSIGN_OR_RETURN(plan.selector, PlanText(json, "selector"));
  if (!json["settings"].is_object()) return WrongKey("settings", "is not an object");
  plan.settings = json["settings"];
  FORESHOCK_ASSIGN_OR_RETURN(plan.source_sha256, PlanText(json, "source_sha256"));
  FORESHOCK_ASSIGN_OR_RETURN(plan.calibration_sha256, PlanTexts(json, "calibration_sha256"));
  FORESHOCK_ASSIGN_OR_RETURN(plan.warnings, PlanTexts(json, "warnings"));
  if (!json["layers"].is_array()) return WrongKey("layers", "is not a list");
  for (const PlanJson& row : json["layers"]) {
    absl::StatusOr<LayerPlan> layer = ParseLayer(row, plan);
    if (!layer.ok()) {
      return base::Annotate(layer.status(),
                            absl::StrCat("layers: element ", plan.layers.size(), " (from 0)"));
    }
    if (!plan.layers.empty() && plan.layers.back().layer >= layer->layer) {
      return WrongKey("layers", absl::StrCat("has layer ", layer->layer, " after layer ",
                                             plan.layers.back().layer));
    }
    plan.layers.push_back(*std::move(layer));
  }
  return plan;
}

}  // namespace

std::string FormatPlan(const Plan& plan) {
  PlanJson layers = PlanJson::array();
  for (const LayerPlan& layer : plan.layers) {
    PlanJson row = {{"layer", layer.layer}, {"kept", layer.kept}};
    if (!layer.cluster.empty()) {
      row["cluster"] = layer.cluster;
      row["medoids"] = layer.medoids;
      row["representatives"] = layer.kept;
      row["scales"] = PlanJson::object();
      for (const auto& [view, scale] : layer.scales) row["scales"][view] = scale;
    }
    row["unseen"] = layer.unseen;
    if (layer.kept_probability) row["kept_probability"] = *layer.kept_probability;
    layers.push_back(row);
  }
  const PlanJson json = {{"format", kPlanFormat},
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

absl::StatusOr<Plan> ParsePlan(absl::string_view file, absl::string_view text) {
  FORESHOCK_ASSIGN_OR_RETURN(const PlanJson json, ParseOrderedJson(file, text));
  absl::StatusOr<Plan> plan = ParseWhole(json);
  if (!plan.ok()) return base::Annotate(plan.status(), file);
  return plan;
}

absl::Status CheckPlan(const Plan& plan, const Checkpoint& checkpoint, const Model& model) {
  const auto differs = [&](absl::string_view what, auto said, auto found) {
    return absl::InvalidArgumentError(absl::StrCat("the plan is of another checkpoint: its ", what,
                                                   " is ", said, ", ", checkpoint.directory,
                                                   " has ", found));
  };
  if (plan.model_type != model.model_type) {
    return differs("model_type", plan.model_type, model.model_type);
  }
  if (plan.experts != model.experts) return differs("experts", plan.experts, model.experts);
  if (plan.top_k != model.top_k) return differs("top_k", plan.top_k, model.top_k);
  if (plan.source_sha256 != checkpoint.sha256) {
    return differs("source_sha256", plan.source_sha256, checkpoint.sha256);
  }
  const auto number = [](const auto& layer) { return absl::StrCat(layer.layer); };
  std::vector<std::string> planned;
  std::vector<std::string> found;
  for (const LayerPlan& layer : plan.layers) planned.push_back(number(layer));
  for (const MoeLayer& layer : model.moe) found.push_back(number(layer));
  if (planned != found) {
    return differs("list of layers", absl::StrJoin(planned, " "), absl::StrJoin(found, " "));
  }
  const KeepCheck check = CheckKeep(model, plan.keep, 1);
  if (!check.errors.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("plan: ", absl::StrJoin(check.errors, "; ")));
  }
  const int group = model.experts / model.groups;
  for (const LayerPlan& layer : plan.layers) {
    for (int g = 0; g < model.groups; ++g) {
      const auto kept = std::count_if(layer.kept.begin(), layer.kept.end(),
                                      [&](int expert) { return expert / group == g; });
      if (kept == plan.keep / model.groups) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("plan: layer ", layer.layer, ": keeps ", kept, " experts of group ", g,
                       "; each of the ", model.groups, " groups keeps ", plan.keep / model.groups));
    }
  }
  return absl::OkStatus();
}

}  // namespace foreshock::proxy
