#include "proxy/model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"

namespace foreshock::proxy {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kExpertsMax = 65536;

// Parts of every decoder that have nothing to do with experts; known so that a dimension that
// happens to be E is no cause for alarm.
constexpr absl::string_view kLayerParts[] = {"self_attn.*",
                                             "input_layernorm.*",
                                             "post_attention_layernorm.*",
                                             "mlp.gate_proj.*",
                                             "mlp.up_proj.*",
                                             "mlp.down_proj.*",
                                             "pre_feedforward_layernorm.*",
                                             "post_feedforward_layernorm.*"};
constexpr absl::string_view kOutsideParts[] = {"embed_tokens.weight", "norm.weight",
                                               "lm_head.weight", "lm_head.bias"};

// An integer of the config; `fallback` where it is absent or null.
absl::StatusOr<int> ReadInt(const Json& config, const std::string& key, std::optional<int> fallback,
                            int least, int most) {
  if (!config.contains(key) || config[key].is_null()) {
    if (fallback) return *fallback;
    return absl::InvalidArgumentError(absl::StrCat("config.json: has no ", key));
  }
  const Json& value = config[key];
  if (!value.is_number_integer() || value.get<double>() < least || value.get<double>() > most) {
    return absl::InvalidArgumentError(absl::StrCat("config.json: ", key, " is ", value.dump(),
                                                   "; allowed are ", least, " to ", most));
  }
  return value.get<int>();
}

std::string ReadText(const Json& config, const char* key, const char* fallback) {
  if (!config.contains(key) || !config[key].is_string()) return fallback;
  return config[key].get<std::string>();
}

absl::Status ReadConfig(const Json& whole, const Families& families, Model* model) {
  const Json* config = &whole;
  model->model_type = ReadText(whole, "model_type", "");
  const Family* family = families.Find(model->model_type);
  if (whole.contains("text_config") && whole["text_config"].is_object() &&
      (family == nullptr || !whole.contains(family->experts))) {
    config = &whole["text_config"];
    model->config_section = "text_config";
    const std::string inner = ReadText(*config, "model_type", "");
    if (families.Find(inner) != nullptr) {
      model->model_type = inner;
      family = families.Find(inner);
    }
  }
  if (family == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("config.json: model_type '", model->model_type,
                                                   "' is not known; known are ", families.Known(),
                                                   "; --families FILE adds to them"));
  }
  model->family = *family;
  FORESHOCK_ASSIGN_OR_RETURN(model->experts,
                             ReadInt(*config, family->experts, std::nullopt, 1, kExpertsMax));
  FORESHOCK_ASSIGN_OR_RETURN(
      model->top_k, ReadInt(*config, "num_experts_per_tok", std::nullopt, 1, model->experts));
  FORESHOCK_ASSIGN_OR_RETURN(model->layers,
                             ReadInt(*config, "num_hidden_layers", std::nullopt, 1, 1 << 20));
  const bool v3 = model->model_type == "deepseek_v3";
  const std::string method = ReadText(*config, "topk_method", v3 ? "noaux_tc" : "greedy");
  if (method != "greedy") {
    FORESHOCK_ASSIGN_OR_RETURN(model->groups, ReadInt(*config, "n_group", 1, 1, model->experts));
    FORESHOCK_ASSIGN_OR_RETURN(model->groups_chosen,
                               ReadInt(*config, "topk_group", 1, 1, model->groups));
    if (model->experts % model->groups != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "config.json: n_group ", model->groups, " does not divide ", model->experts, " experts"));
    }
  }
  model->top2_groups = method == "noaux_tc";
  model->scoring = ReadText(*config, "scoring_func", v3 ? "sigmoid" : "softmax");
  model->renormalised =
      family->renormalises ||
      (config->contains("norm_topk_prob") ? (*config)["norm_topk_prob"] == Json(true) : v3);
  for (const char* key : {"num_redundant_experts", "ep_num_redundant_experts"}) {
    FORESHOCK_ASSIGN_OR_RETURN(const int replicas, ReadInt(*config, key, 0, 0, kExpertsMax));
    if (replicas > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("config.json: ", key, " is ", replicas,
                       "; replicas refer to the old experts: use the checkpoint without them"));
    }
  }
  return absl::OkStatus();
}

// Whether the config says that a layer has experts.
absl::StatusOr<bool> ConfigSaysMoe(const Json& config, int layer) {
  FORESHOCK_ASSIGN_OR_RETURN(const int dense,
                             ReadInt(config, "first_k_dense_replace", 0, 0, 1 << 20));
  FORESHOCK_ASSIGN_OR_RETURN(const int sparse,
                             ReadInt(config, "decoder_sparse_step", 1, 1, 1 << 20));
  if (config.contains("mlp_only_layers") && config["mlp_only_layers"].is_array()) {
    for (const Json& only : config["mlp_only_layers"]) {
      if (only == Json(layer)) return false;
    }
  }
  FORESHOCK_ASSIGN_OR_RETURN(const int every, ReadInt(config, "moe_layer_freq", 1, 1, 1 << 20));
  return layer >= dense && layer % every == 0 && (layer + 1) % sparse == 0;
}

bool MatchesAny(const std::vector<std::string>& patterns, absl::string_view rest) {
  int expert = 0;
  size_t digits = 0;
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return MatchPattern(pattern, rest, &expert, &digits);
  });
}

bool IsPlainPart(const LayerName& name) {
  int expert = 0;
  size_t digits = 0;
  if (name.layer >= 0) {
    return std::any_of(std::begin(kLayerParts), std::end(kLayerParts), [&](absl::string_view part) {
      return MatchPattern(part, name.rest, &expert, &digits);
    });
  }
  return std::any_of(
      std::begin(kOutsideParts), std::end(kOutsideParts), [&](absl::string_view part) {
        return name.rest == part || absl::EndsWith(name.rest, absl::StrCat(".", part));
      });
}

// The tensors of one kind in a layer, one of each expert.
struct ExpertSet {
  const Tensor* first = nullptr;
  std::vector<bool> seen;
  int count = 0;
};

class Recogniser {
 public:
  Recogniser(const Checkpoint& checkpoint, Model* model) : checkpoint_(checkpoint), model_(model) {}

  absl::Status Run() {
    for (size_t s = 0; s < checkpoint_.shards.size(); ++s) {
      const Shard& shard = checkpoint_.shards[s];
      std::vector<Role> roles;
      for (size_t t = 0; t < shard.header.tensors.size(); ++t) {
        absl::StatusOr<Role> role = Understand(s, t);
        if (!role.ok()) {
          const Tensor& tensor = shard.header.tensors[t];
          return base::Annotate(role.status(), absl::StrCat(shard.file.path(), ": tensor '",
                                                            tensor.name, "': byte ", tensor.begin));
        }
        roles.push_back(*role);
      }
      model_->roles.push_back(std::move(roles));
    }
    return CheckLayers();
  }

 private:
  absl::StatusOr<Role> Understand(size_t shard, size_t index) {
    const Tensor& tensor = checkpoint_.shards[shard].header.tensors[index];
    const LayerName name = SplitLayer(tensor.name);
    const Family& family = model_->family;
    Role role;
    role.layer = name.layer;
    if (name.layer >= 0 && name.rest == family.router) {
      const auto found = layers_.find(name.layer);
      if (found != layers_.end()) {
        return absl::InvalidArgumentError(absl::StrCat("layer ", name.layer,
                                                       " has two routers, another is '",
                                                       TensorAt(found->second).name, "'"));
      }
      if (tensor.shape.size() != 2 || tensor.shape[0] != Experts()) return WrongShape(tensor, 0);
      if (model_->hidden != 0 && tensor.shape[1] != static_cast<uint64_t>(model_->hidden)) {
        return absl::InvalidArgumentError(
            absl::StrCat("has ", tensor.shape[1], " columns, the first router ", model_->hidden));
      }
      model_->hidden = static_cast<int>(tensor.shape[1]);
      layers_[name.layer] = {name.layer, name.layer >= model_->layers, shard, index};
      role.action = Action::kSliceAxis0;
      model_->router_bytes += tensor.bytes();
      return role;
    }
    if (name.layer >= 0 && MatchesAny(family.axis_0, name.rest)) {
      if (tensor.shape.empty() || tensor.shape[0] != Experts()) {
        // A bias of this name with shape [1, E] is the same thing, lying down.
        if (tensor.shape.size() != 2 || tensor.shape[0] != 1 || tensor.shape[1] != Experts()) {
          return WrongShape(tensor, 0);
        }
        role.action = Action::kSliceAxis1;
      } else {
        role.action = Action::kSliceAxis0;
      }
      return CountSliced(name, tensor, role);
    }
    if (name.layer >= 0 && MatchesAny(family.axis_1, name.rest)) {
      if (tensor.shape.size() != 2 || tensor.shape[0] != 1 || tensor.shape[1] != Experts()) {
        return WrongShape(tensor, 1);
      }
      role.action = Action::kSliceAxis1;
      return CountSliced(name, tensor, role);
    }
    for (const std::string& pattern : family.expert) {
      size_t digits = 0;
      if (name.layer < 0 || !MatchPattern(pattern, name.rest, &role.expert, &digits)) continue;
      if (role.expert >= model_->experts) {
        return absl::InvalidArgumentError(
            absl::StrCat("is of expert ", role.expert, ", the config has ", model_->experts));
      }
      role.action = Action::kExpert;
      role.digits = tensor.name.size() - name.rest.size() + digits;
      model_->expert_bytes += tensor.bytes();
      const std::string kind = name.rest.substr(digits + absl::StrCat(role.expert).size());
      FORESHOCK_RETURN_IF_ERROR(AddExpert(name.layer, kind, tensor, role.expert));
      return role;
    }
    role.expert = -1;
    if (name.layer >= 0 && MatchesAny(family.shared, name.rest)) {
      model_->shared_experts = true;
      model_->shared_bytes += tensor.bytes();
      return role;
    }
    const bool known = (name.layer >= 0 && MatchesAny(family.copy, name.rest)) || IsPlainPart(name);
    if (!known &&
        std::find(tensor.shape.begin(), tensor.shape.end(), Experts()) != tensor.shape.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is not known in family ", family.name, " and its shape [",
          absl::StrJoin(tensor.shape, ", "), "] has a dimension of ", model_->experts,
          ", the number of experts; say in --families FILE whether it is cut or copied"));
    }
    model_->other_bytes += tensor.bytes();
    return role;
  }

  absl::StatusOr<Role> CountSliced(const LayerName& name, const Tensor& tensor, const Role& role) {
    const bool expert_data = absl::StrContains(name.rest, "experts");
    (expert_data ? model_->expert_bytes : model_->router_bytes) += tensor.bytes();
    if (expert_data) {
      model_->fused = true;
      fused_.insert({name.layer, true});
    } else if (absl::StrContains(name.rest, "correction_bias")) {
      model_->correction_bias = true;
    }
    sliced_.insert({name.layer, tensor.name});
    return role;
  }

  absl::Status AddExpert(int layer, const std::string& kind, const Tensor& tensor, int expert) {
    ExpertSet& set = experts_[{layer, kind}];
    if (set.first == nullptr) {
      set.first = &tensor;
      set.seen.resize(static_cast<size_t>(model_->experts));
    }
    if (tensor.dtype != set.first->dtype || tensor.shape != set.first->shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is ", tensor.dtype, " [", absl::StrJoin(tensor.shape, ", "), "], but '", set.first->name,
          "' is ", set.first->dtype, " [", absl::StrJoin(set.first->shape, ", "), "]"));
    }
    if (set.seen[static_cast<size_t>(expert)]) {
      return absl::InvalidArgumentError(absl::StrCat("expert ", expert, " has it twice"));
    }
    set.seen[static_cast<size_t>(expert)] = true;
    ++set.count;
    return absl::OkStatus();
  }

  absl::Status CheckLayers() {
    if (layers_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          checkpoint_.directory, ": no tensor is called layers.{l}.", model_->family.router,
          ": this is not an MoE model of family ", model_->family.name));
    }
    for (const auto& [key, set] : experts_) {
      const auto& [layer, kind] = key;
      if (set.count != model_->experts) {
        const auto gap = std::find(set.seen.begin(), set.seen.end(), false) - set.seen.begin();
        return absl::InvalidArgumentError(
            absl::StrCat(checkpoint_.directory, ": layer ", layer, ": expert ", gap, " has no '",
                         kind, "', which ", set.count, " of ", model_->experts, " experts have"));
      }
      if (!layers_.contains(layer)) return NoRouter(layer, set.first->name);
      fused_.insert({layer, false});
    }
    for (const auto& [layer, name] : sliced_) {
      if (!layers_.contains(layer)) return NoRouter(layer, name);
    }
    const Json& config = model_->config_section.empty()
                             ? checkpoint_.config
                             : checkpoint_.config[model_->config_section];
    for (int layer = 0; layer < model_->layers; ++layer) {
      FORESHOCK_ASSIGN_OR_RETURN(const bool said, ConfigSaysMoe(config, layer));
      if (said != layers_.contains(layer)) {
        return absl::InvalidArgumentError(
            absl::StrCat(checkpoint_.directory, ": layer ", layer, ": config.json says that it ",
                         said ? "has" : "has no", " experts, the tensors say the contrary"));
      }
    }
    for (const auto& [layer, moe] : layers_) {
      if (!fused_.contains(layer)) {
        return absl::InvalidArgumentError(
            absl::StrCat(checkpoint_.directory, ": layer ", layer, " has a router and no experts"));
      }
      model_->moe.push_back(moe);
    }
    return absl::OkStatus();
  }

  absl::Status NoRouter(int layer, absl::string_view name) const {
    return absl::InvalidArgumentError(absl::StrCat(checkpoint_.directory, ": layer ", layer,
                                                   " has '", name, "' and no ",
                                                   model_->family.router));
  }
  absl::Status WrongShape(const Tensor& tensor, int axis) const {
    return absl::InvalidArgumentError(absl::StrCat("shape [", absl::StrJoin(tensor.shape, ", "),
                                                   "]: axis ", axis, " must be ", model_->experts,
                                                   ", the config's ", model_->family.experts));
  }
  uint64_t Experts() const { return static_cast<uint64_t>(model_->experts); }
  const Tensor& TensorAt(const MoeLayer& layer) const {
    return checkpoint_.shards[layer.router_shard].header.tensors[layer.router_tensor];
  }

  const Checkpoint& checkpoint_;
  Model* model_;
  std::map<int, MoeLayer> layers_;
  std::map<std::pair<int, std::string>, ExpertSet> experts_;  // by layer and kind
  std::map<int, bool> fused_;                                 // layers that have experts at all
  std::multimap<int, std::string> sliced_;
};

}  // namespace

std::string Model::Routing() const {
  std::string text = absl::StrCat(scoring, ", top ", top_k);
  if (groups > 1) absl::StrAppend(&text, " within ", groups_chosen, " of ", groups, " groups");
  if (correction_bias) text += ", correction bias";
  text += renormalised ? ", gates renormalised" : ", gates not renormalised";
  return text;
}

absl::StatusOr<Model> Recognise(const Checkpoint& checkpoint, const Families& families) {
  Model model;
  FORESHOCK_RETURN_IF_ERROR(
      base::Annotate(ReadConfig(checkpoint.config, families, &model), checkpoint.directory));
  FORESHOCK_RETURN_IF_ERROR(Recogniser(checkpoint, &model).Run());
  return model;
}

KeepCheck CheckKeep(const Model& model, int keep, int expert_parallel) {
  KeepCheck check;
  const auto error = [&](auto... parts) { check.errors.push_back(absl::StrCat(parts...)); };
  const auto warning = [&](auto... parts) { check.warnings.push_back(absl::StrCat(parts...)); };
  if (keep > model.experts) error(keep, " experts cannot be kept of ", model.experts);
  if (keep < model.top_k) error(keep, " experts are fewer than top-k, ", model.top_k);
  if (keep == model.top_k && keep < model.experts) {
    warning("experts kept = top-k = ", keep, ": every token takes every expert");
  }
  if (keep % expert_parallel != 0) {
    error("expert-parallel size ", expert_parallel, " does not divide ", keep);
  }
  if (model.groups > 1) {
    if (keep % model.groups != 0) {
      error("n_group ", model.groups, " does not divide ", keep);
    } else {
      const int each = keep / model.groups;
      const int allowed = model.groups_chosen * each;
      if (model.top2_groups && each < 2) {
        error(each, " expert a group; a group's score is the sum of its two best experts");
      }
      if (allowed < model.top_k) {
        error("topk_group ", model.groups_chosen, " x ", each, " experts a group = ", allowed,
              ", fewer than top-k, ", model.top_k);
      } else if (allowed == model.top_k && keep < model.experts) {
        warning("topk_group x experts a group = top-k = ", allowed,
                ": every expert of the chosen groups is taken, the groups alone decide");
      }
    }
  }
  if (keep < model.experts) {
    if (!model.renormalised) {
      warning("the gates are not renormalised: they grow when fewer experts share the softmax");
    }
    if (model.correction_bias) {
      warning("the correction bias was tuned for ", model.experts,
              " experts: load is uneven until it adapts");
    }
  }
  return check;
}

}  // namespace foreshock::proxy
