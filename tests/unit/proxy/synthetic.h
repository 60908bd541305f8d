// Small checkpoints of every family, with the real names and shapes scaled down.
//
//   TempDir dir;
//   const SyntheticModel model = MakeModel("mixtral");
//   Write(model, dir.path(), /*shards=*/2);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace foreshock::proxy {

struct SyntheticTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string data;
};

struct SyntheticModel {
  nlohmann::ordered_json config;
  std::vector<SyntheticTensor> tensors;
};

constexpr int kExperts = 8;  // of every synthetic model
constexpr int kHidden = 6;

// "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3" (4 groups, a dense
// first layer, FP8 scales, a prediction layer), "gpt_oss" (fused, blocks and scales),
// "qwen3_fused", "multimodal" (qwen3_moe below text_config and another prefix).
SyntheticModel MakeModel(const std::string& kind);
std::vector<std::string> ModelKinds();

// Data that differ from byte to byte and from tensor to tensor; floats of F32 are finite.
SyntheticTensor MakeTensor(const std::string& name, const std::string& dtype,
                           const std::vector<uint64_t>& shape);

// One file's bytes; the header is written as given, right or wrong.
std::string Encode(const std::vector<SyntheticTensor>& tensors);
std::string EncodeRaw(const std::string& header, const std::string& data);

// config.json, tokenizer.json and the tensors dealt out to `shards` files in turn; one file needs
// no index.
void Write(const SyntheticModel& model, const std::string& directory, size_t shards);
void WriteText(const std::string& path, const std::string& text);
std::string ReadText(const std::string& path);

}  // namespace foreshock::proxy
