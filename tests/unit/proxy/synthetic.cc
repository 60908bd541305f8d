#include "tests/unit/proxy/synthetic.h"

#include <fstream>
#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/check.h"
#include "proxy/safetensors.h"

namespace foreshock::proxy {
namespace {

using Shape = std::vector<uint64_t>;

constexpr uint64_t kE = kExperts;
constexpr uint64_t kD = kHidden;
constexpr uint64_t kInner = 3;

void AddExperts(SyntheticModel* model, const std::string& prefix,
                const std::vector<std::string>& kinds, const std::string& dtype, bool scales) {
  for (int e = 0; e < kExperts; ++e) {
    for (const std::string& kind : kinds) {
      const std::string name = absl::StrCat(prefix, "experts.", e, ".", kind, ".weight");
      model->tensors.push_back(MakeTensor(name, dtype, {kInner, kD}));
      if (scales) model->tensors.push_back(MakeTensor(name + "_scale_inv", "F32", {1, 1}));
    }
  }
}

void AddPlainParts(SyntheticModel* model, const std::string& prefix, int layer) {
  const std::string at = absl::StrCat(prefix, "layers.", layer, ".");
  // A head of kExperts columns: a known name may have a dimension that happens to be E.
  model->tensors.push_back(MakeTensor(at + "self_attn.q_norm.weight", "BF16", {kE}));
  model->tensors.push_back(MakeTensor(at + "self_attn.q_proj.weight", "BF16", {kE, kD}));
  model->tensors.push_back(MakeTensor(at + "input_layernorm.weight", "BF16", {kD}));
}

}  // namespace

std::vector<std::string> ModelKinds() {
  return {"mixtral",     "qwen2_moe", "qwen3_moe",   "olmoe",     "deepseek_v2",
          "deepseek_v3", "gpt_oss",   "qwen3_fused", "multimodal"};
}

SyntheticTensor MakeTensor(const std::string& name, const std::string& dtype, const Shape& shape) {
  auto bits = static_cast<uint64_t>(DtypeBits(dtype));
  FORESHOCK_CHECK(bits > 0);
  for (const uint64_t n : shape) bits *= n;
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937 random(seed);
  SyntheticTensor tensor{name, dtype, shape, std::string(bits / 8, '\0')};
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    tensor.data[i] = static_cast<char>(random() & 0xFF);
    if (dtype == "F32" && i % 4 == 3) tensor.data[i] = 0x3F;  // 0.5 to 2
  }
  return tensor;
}

SyntheticModel MakeModel(const std::string& kind) {
  const bool v3 = kind == "deepseek_v3";
  const bool deepseek = v3 || kind == "deepseek_v2";
  SyntheticModel model;
  const std::string type =
      kind == "qwen3_fused" || kind == "multimodal" ? std::string("qwen3_moe") : kind;
  const std::string prefix = kind == "multimodal" ? "language_model.model." : "model.";
  nlohmann::ordered_json config = {{"model_type", type},       {"hidden_size", kHidden},
                                   {"num_experts_per_tok", 2}, {"num_hidden_layers", 2},
                                   {"rms_norm_eps", 1e-06},    {"norm_topk_prob", type != "olmoe"}};
  config[type == "mixtral" || type == "gpt_oss" ? "num_local_experts"
         : deepseek                             ? "n_routed_experts"
                                                : "num_experts"] = kExperts;
  model.tensors.push_back(MakeTensor(prefix + "embed_tokens.weight", "BF16", {kE, kD}));
  for (int layer = 0; layer < (v3 ? 3 : 2); ++layer) {
    AddPlainParts(&model, prefix, layer);
    const std::string at = absl::StrCat(prefix, "layers.", layer, ".");
    const std::string mlp = at + (type == "mixtral" ? "block_sparse_moe." : "mlp.");
    if (v3 && layer == 0) {  // dense, as first_k_dense_replace says
      model.tensors.push_back(MakeTensor(mlp + "gate_proj.weight", "BF16", {kE, kD}));
      continue;
    }
    const bool fused = type == "gpt_oss" || kind == "qwen3_fused";
    model.tensors.push_back(
        MakeTensor(mlp + (type == "gpt_oss" ? "router.weight" : "gate.weight"), "F32", {kE, kD}));
    if (type == "gpt_oss") {
      model.tensors.push_back(MakeTensor(mlp + "router.bias", "BF16", {kE}));
      for (const char* name : {"gate_up_proj", "down_proj"}) {
        model.tensors.push_back(
            MakeTensor(absl::StrCat(mlp, "experts.", name, "_blocks"), "U8", {kE, 2, 2, 4}));
        model.tensors.push_back(
            MakeTensor(absl::StrCat(mlp, "experts.", name, "_scales"), "U8", {kE, 2, 2}));
        model.tensors.push_back(
            MakeTensor(absl::StrCat(mlp, "experts.", name, "_bias"), "BF16", {kE, 3}));
      }
    } else if (fused) {
      model.tensors.push_back(MakeTensor(mlp + "experts.gate_up_proj", "BF16", {kE, kD, 4}));
      model.tensors.push_back(MakeTensor(mlp + "experts.down_proj", "BF16", {kE, 2, kD}));
    } else if (type == "mixtral") {
      AddExperts(&model, mlp, {"w1", "w2", "w3"}, "BF16", false);
    } else {
      AddExperts(&model, mlp, {"gate_proj", "up_proj", "down_proj"}, v3 ? "F8_E4M3" : "BF16", v3);
    }
    if (v3) model.tensors.push_back(MakeTensor(mlp + "gate.e_score_correction_bias", "F32", {kE}));
    if (type == "qwen2_moe") {
      model.tensors.push_back(MakeTensor(mlp + "shared_expert.up_proj.weight", "BF16", {kE, kD}));
      model.tensors.push_back(MakeTensor(mlp + "shared_expert_gate.weight", "BF16", {1, kD}));
    }
    if (deepseek) {
      model.tensors.push_back(MakeTensor(mlp + "shared_experts.up_proj.weight", "BF16", {kE, kD}));
    }
  }
  model.tensors.push_back(MakeTensor(prefix + "norm.weight", "BF16", {kD}));
  model.tensors.push_back(MakeTensor("lm_head.weight", "BF16", {kE, kD}));
  if (v3) {
    config["n_group"] = 4;
    config["topk_group"] = 2;
    config["topk_method"] = "noaux_tc";
    config["scoring_func"] = "sigmoid";
    config["first_k_dense_replace"] = 1;
    config["num_nextn_predict_layers"] = 1;
  }
  if (kind == "multimodal") {
    model.config = {{"model_type", "some_vision_model"}, {"text_config", config}};
  } else {
    model.config = config;
  }
  return model;
}

std::string EncodeRaw(const std::string& header, const std::string& data) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text + header + data;
}

std::string Encode(const std::vector<SyntheticTensor>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const SyntheticTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  return EncodeRaw(header.dump(), data);
}

void Write(const SyntheticModel& model, const std::string& directory, size_t shards) {
  WriteText(directory + "/config.json", model.config.dump(2) + "\n");
  WriteText(directory + "/tokenizer.json", "{\"not\": \"touched\"}");
  if (shards == 1) {
    WriteText(directory + "/model.safetensors", Encode(model.tensors));
    return;
  }
  nlohmann::json map;
  uint64_t bytes = 0;
  for (size_t s = 0; s < shards; ++s) {
    const std::string name = absl::StrFormat("model-%05d-of-%05d.safetensors", s + 1, shards);
    std::vector<SyntheticTensor> part;
    for (size_t t = s; t < model.tensors.size(); t += shards) {
      part.push_back(model.tensors[t]);
      map[model.tensors[t].name] = name;
      bytes += model.tensors[t].data.size();
    }
    WriteText(directory + "/" + name, Encode(part));
  }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  WriteText(directory + "/model.safetensors.index.json", index.dump(2));
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  FORESHOCK_CHECK(file.good());
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  FORESHOCK_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace foreshock::proxy
