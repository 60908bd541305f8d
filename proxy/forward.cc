#include "proxy/forward.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "proxy/file.h"
#include "proxy/json.h"

namespace foreshock::proxy {
namespace {

constexpr char kForwardFormat[] = "foreshock.forward.v1";

const std::vector<std::string>& LayerNumbers() {
  static const auto* const kAll = new std::vector<std::string>{"/survival",
                                                               "/cluster_agreement",
                                                               "/load/before/entropy_ratio",
                                                               "/load/after/entropy_ratio",
                                                               "/load/before/max_violation_ratio",
                                                               "/load/after/max_violation_ratio",
                                                               "/load/rank_correlation",
                                                               "/router/before/token_entropy_ratio",
                                                               "/router/after/token_entropy_ratio",
                                                               "/router/before/mutual_information",
                                                               "/router/after/mutual_information",
                                                               "/router/before/margin_p10",
                                                               "/router/after/margin_p10",
                                                               "/output/error_mean",
                                                               "/output/error_p90",
                                                               "/output/cosine_mean",
                                                               "/stream/error_mean",
                                                               "/stream/error_p90",
                                                               "/stream/cosine_mean"};
  return *kAll;
}

absl::Status CheckNumbers(const std::string& place, const nlohmann::ordered_json& object,
                          const std::vector<std::string>& numbers) {
  for (const std::string& number : numbers) {
    const nlohmann::ordered_json::json_pointer at(number);
    if (object.contains(at) && (object[at].is_number() || object[at].is_null())) continue;
    return absl::InvalidArgumentError(absl::StrCat(place, number, ": a number or null is missing"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> ReadForward(const std::string& path, const Plan& plan,
                                                   const std::string& plan_sha256) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::string text, ReadWhole(path));
  FORESHOCK_ASSIGN_OR_RETURN(const nlohmann::ordered_json given, ParseOrderedJson(path, text));
  if (!given.is_object() || given.value("format", nlohmann::ordered_json()) != kForwardFormat) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": format is not ", kForwardFormat,
                                                   ": foreshock.proxy_report writes it"));
  }
  if (given.value("plan_sha256", nlohmann::ordered_json()) != plan_sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": was measured with another plan.json than the proxy's"));
  }
  const nlohmann::ordered_json none;
  const auto part = [&](const char* name) { return given.contains(name) ? given[name] : none; };
  if (!part("layers").is_array() || part("layers").size() != plan.layers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": /layers has not the ", plan.layers.size(), " layers of the plan"));
  }
  FORESHOCK_RETURN_IF_ERROR(
      CheckNumbers(path + ": ", given,
                   {"/tokens", "/output/cross_entropy_before", "/output/cross_entropy_after",
                    "/output/kl", "/output/positions"}));
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const nlohmann::ordered_json& layer = given["layers"][i];
    const std::string place = absl::StrCat(path, ": /layers/", i);
    if (!layer.is_object() ||
        layer.value("layer", nlohmann::ordered_json()) != plan.layers[i].layer) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": is not layer ", plan.layers[i].layer));
    }
    FORESHOCK_RETURN_IF_ERROR(CheckNumbers(place, layer, LayerNumbers()));
  }
  return nlohmann::ordered_json{
      {"tokens", given["tokens"]}, {"output", given["output"]}, {"layers", given["layers"]}};
}

}  // namespace foreshock::proxy
