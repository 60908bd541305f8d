#include "proxy/family.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "proxy/json.h"

namespace foreshock::proxy {
namespace {

constexpr char kBuiltin[] = R"({"families": [
  {"name": "mixtral", "model_types": ["mixtral"], "experts": "num_local_experts",
   "router": "block_sparse_moe.gate.weight",
   "expert": ["block_sparse_moe.experts.{e}.*"],
   "renormalises": true},

  {"name": "qwen2_moe", "model_types": ["qwen2_moe"], "experts": "num_experts",
   "router": "mlp.gate.weight",
   "expert": ["mlp.experts.{e}.*"],
   "axis_0": ["mlp.experts.gate_up_proj*", "mlp.experts.down_proj*"],
   "shared": ["mlp.shared_expert.*", "mlp.shared_expert_gate.*"]},

  {"name": "qwen3_moe", "model_types": ["qwen3_moe"], "experts": "num_experts",
   "router": "mlp.gate.weight",
   "expert": ["mlp.experts.{e}.*"],
   "axis_0": ["mlp.experts.gate_up_proj*", "mlp.experts.down_proj*"]},

  {"name": "olmoe", "model_types": ["olmoe"], "experts": "num_experts",
   "router": "mlp.gate.weight",
   "expert": ["mlp.experts.{e}.*"],
   "axis_0": ["mlp.experts.gate_up_proj*", "mlp.experts.down_proj*"]},

  {"name": "deepseek", "model_types": ["deepseek_v2", "deepseek_v3"], "experts": "n_routed_experts",
   "router": "mlp.gate.weight",
   "expert": ["mlp.experts.{e}.*"],
   "axis_0": ["mlp.gate.e_score_correction_bias", "mlp.experts.gate_up_proj*",
              "mlp.experts.down_proj*"],
   "shared": ["mlp.shared_experts.*"],
   "copy": ["eh_proj.*", "enorm.*", "hnorm.*", "shared_head.*", "embed_tokens.*"]},

  {"name": "gpt_oss", "model_types": ["gpt_oss"], "experts": "num_local_experts",
   "router": "mlp.router.weight",
   "axis_0": ["mlp.router.bias", "mlp.experts.gate_up_proj*", "mlp.experts.down_proj*"],
   "renormalises": true}
]})";

absl::Status ReadTexts(const nlohmann::json& row, const char* key, std::vector<std::string>* out) {
  if (!row.contains(key)) return absl::OkStatus();
  if (!row[key].is_array()) return absl::InvalidArgumentError(absl::StrCat(key, " is no list"));
  for (const auto& text : row[key]) {
    if (!text.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(key, " has an element that is no text"));
    }
    out->push_back(text.get<std::string>());
  }
  return absl::OkStatus();
}

absl::StatusOr<Family> ReadFamily(const nlohmann::json& row) {
  if (!row.is_object()) return absl::InvalidArgumentError("is no object");
  Family family;
  for (const auto& [key, value] : row.items()) {
    if (key == "name" || key == "experts" || key == "router") {
      if (!value.is_string() || value.get<std::string>().empty()) {
        return absl::InvalidArgumentError(absl::StrCat(key, " is no text"));
      }
      std::string& field = key == "name"      ? family.name
                           : key == "experts" ? family.experts
                                              : family.router;
      field = value.get<std::string>();
    } else if (key == "renormalises") {
      if (!value.is_boolean()) return absl::InvalidArgumentError("renormalises is true or false");
      family.renormalises = value.get<bool>();
    } else if (key != "model_types" && key != "expert" && key != "axis_0" && key != "axis_1" &&
               key != "shared" && key != "copy") {
      return absl::InvalidArgumentError(absl::StrCat("unknown key '", key, "'"));
    }
  }
  FORESHOCK_RETURN_IF_ERROR(ReadTexts(row, "model_types", &family.model_types));
  FORESHOCK_RETURN_IF_ERROR(ReadTexts(row, "expert", &family.expert));
  FORESHOCK_RETURN_IF_ERROR(ReadTexts(row, "axis_0", &family.axis_0));
  FORESHOCK_RETURN_IF_ERROR(ReadTexts(row, "axis_1", &family.axis_1));
  FORESHOCK_RETURN_IF_ERROR(ReadTexts(row, "shared", &family.shared));
  FORESHOCK_RETURN_IF_ERROR(ReadTexts(row, "copy", &family.copy));
  if (family.name.empty() || family.model_types.empty() || family.experts.empty() ||
      family.router.empty()) {
    return absl::InvalidArgumentError("needs name, model_types, experts and router");
  }
  for (const std::string& pattern : family.expert) {
    if (!absl::StrContains(pattern, "{e}")) {
      return absl::InvalidArgumentError(absl::StrCat("expert '", pattern, "' has no {e}"));
    }
  }
  return family;
}

}  // namespace

absl::StatusOr<Families> Families::Builtin() {
  Families families;
  FORESHOCK_RETURN_IF_ERROR(families.Add("built-in families", kBuiltin));
  return families;
}

absl::Status Families::Add(absl::string_view file, absl::string_view json) {
  FORESHOCK_ASSIGN_OR_RETURN(const nlohmann::json table, ParseJson(file, json));
  if (!table.is_object() || table.size() != 1 || !table.contains("families") ||
      !table["families"].is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": is not an object with one list, 'families'"));
  }
  for (const auto& row : table["families"]) {
    absl::StatusOr<Family> family = ReadFamily(row);
    if (!family.ok()) {
      return base::Annotate(
          family.status(),
          absl::StrCat(file, ": family ", &row - &table["families"][0], " (from 0)"));
    }
    const auto same = std::find_if(rows_.begin(), rows_.end(),
                                   [&](const Family& old) { return old.name == family->name; });
    if (same != rows_.end()) {
      *same = *std::move(family);
    } else {
      rows_.push_back(*std::move(family));
    }
  }
  return absl::OkStatus();
}

const Family* Families::Find(absl::string_view model_type) const {
  // The last row that claims it: a file's rows come after the built-in ones.
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
    for (const std::string& type : row->model_types) {
      if (type == model_type) return &*row;
    }
  }
  return nullptr;
}

std::string Families::Known() const {
  std::vector<std::string> types;
  for (const Family& row : rows_) {
    types.insert(types.end(), row.model_types.begin(), row.model_types.end());
  }
  return absl::StrJoin(types, ", ");
}

LayerName SplitLayer(absl::string_view name) {
  constexpr absl::string_view kLayers = "layers.";
  for (size_t at = name.find(kLayers); at != absl::string_view::npos;
       at = name.find(kLayers, at + 1)) {
    if (at > 0 && name[at - 1] != '.') continue;
    const size_t begin = at + kLayers.size();
    size_t end = begin;
    while (end < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[end]))) ++end;
    int layer = -1;
    if (end == begin || end >= name.size() || name[end] != '.' ||
        !absl::SimpleAtoi(name.substr(begin, end - begin), &layer)) {
      continue;
    }
    return {std::string(name.substr(0, at)), layer, std::string(name.substr(end + 1))};
  }
  return {"", -1, std::string(name)};
}

bool MatchPattern(absl::string_view pattern, absl::string_view rest, int* expert, size_t* digits) {
  const bool open_end = absl::EndsWith(pattern, "*");
  if (open_end) pattern.remove_suffix(1);
  const size_t hole = pattern.find("{e}");
  if (hole == absl::string_view::npos) {
    return open_end ? absl::StartsWith(rest, pattern) : rest == pattern;
  }
  if (!absl::StartsWith(rest, pattern.substr(0, hole))) return false;
  size_t end = hole;
  while (end < rest.size() && absl::ascii_isdigit(static_cast<unsigned char>(rest[end]))) ++end;
  if (end == hole || (rest[hole] == '0' && end > hole + 1) ||
      !absl::SimpleAtoi(rest.substr(hole, end - hole), expert)) {
    return false;
  }
  *digits = hole;
  const absl::string_view tail = pattern.substr(hole + 3);
  return open_end ? absl::StartsWith(rest.substr(end), tail) : rest.substr(end) == tail;
}

}  // namespace foreshock::proxy
