// A checkpoint understood as an MoE model: what the config says, what every tensor is, and whether
// the two agree.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Model model, Recognise(checkpoint, families));
//   const KeepCheck check = CheckKeep(model, /*keep=*/64, /*expert_parallel=*/1);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/checkpoint.h"
#include "proxy/family.h"

namespace foreshock::proxy {

// What happens to a tensor when experts are cut out. Every tensor has exactly one.
enum class Action { kCopy, kSliceAxis0, kSliceAxis1, kExpert };

struct Role {
  Action action = Action::kCopy;
  int layer = -1;     // -1: in no layer
  int expert = -1;    // kExpert only
  size_t digits = 0;  // kExpert only: where the expert's digits begin in the tensor's name
};

struct MoeLayer {
  int layer = 0;            // as in the tensors' names
  bool prediction = false;  // a multi-token-prediction layer: its index is >= the config's layers
  size_t router_shard = 0;  // the router's weight: shards[router_shard].header.tensors[...]
  size_t router_tensor = 0;
};

struct Model {
  Family family;
  std::string model_type;
  std::string config_section;  // "text_config" where the language model's keys are nested, or ""
  int layers = 0;              // num_hidden_layers
  int experts = 0;             // E
  int top_k = 0;
  int hidden = 0;                // d: columns of the router's weight
  int groups = 1;                // n_group; 1: routing is not limited to groups
  int groups_chosen = 1;         // topk_group
  bool top2_groups = false;      // a group's score is the sum of its two best experts (noaux_tc)
  bool renormalised = false;     // the top-k gates sum to a constant
  bool correction_bias = false;  // the router has a correction bias
  bool shared_experts = false;
  bool fused = false;                    // the experts of a layer are one tensor [E, ...]
  std::vector<MoeLayer> moe;             // ascending
  std::vector<std::vector<Role>> roles;  // [shard][tensor], as in the checkpoint
  uint64_t expert_bytes = 0;  // tensors with an expert axis or of one expert, without the router
  uint64_t router_bytes = 0;
  uint64_t shared_bytes = 0;
  uint64_t other_bytes = 0;

  uint64_t bytes() const { return expert_bytes + router_bytes + shared_bytes + other_bytes; }
  // Bytes with `keep` experts in each layer; exact, for all experts of a layer are alike.
  uint64_t BytesWith(int keep) const {
    const auto share = static_cast<uint64_t>(keep);
    const auto all = static_cast<uint64_t>(experts);
    return expert_bytes / all * share + router_bytes / all * share + shared_bytes + other_bytes;
  }
  // "softmax, top 8", "sigmoid, top 8 of 4 of 8 groups, correction bias".
  std::string Routing() const;
  std::string scoring;  // "softmax" or "sigmoid"
};

absl::StatusOr<Model> Recognise(const Checkpoint& checkpoint, const Families& families);

struct KeepCheck {
  std::vector<std::string> errors;  // `keep` cannot be used
  std::vector<std::string> warnings;
};
// The rules for the number of kept experts; `expert_parallel` is the number of ranks that share
// the experts.
KeepCheck CheckKeep(const Model& model, int keep, int expert_parallel);

}  // namespace foreshock::proxy
