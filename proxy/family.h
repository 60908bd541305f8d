// How families of MoE models name their tensors and what each name means when experts are cut out.
// One table (family.cc), in JSON; a file of the same form adds rows, or replaces rows by name.
//
//   {"families": [{"name": "mixtral", "model_types": ["mixtral"], "experts": "num_local_experts",
//                  "router": "block_sparse_moe.gate.weight",
//                  "expert": ["block_sparse_moe.experts.{e}.*"]}]}
//
// Patterns are what follows "layers.{l}." in a tensor's name; {e} is an expert's index, a final *
// is anything.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace foreshock::proxy {

struct Family {
  std::string name;
  std::vector<std::string> model_types;  // of config.json
  std::string experts;                   // config's key with the number of experts
  std::string router;                    // the router's weight [E, d]: cut along axis 0
  std::vector<std::string> expert;       // one expert's tensors, with {e}: kept or dropped whole
  std::vector<std::string> axis_0;       // [E, ...]: biases, fused experts
  std::vector<std::string> axis_1;       // [1, E]
  std::vector<std::string> shared;       // shared experts: copied
  std::vector<std::string> copy;         // copied though a dimension may happen to be E
  bool renormalises = false;  // top-k gates always sum to a constant, whatever the config says
};

class Families {
 public:
  // The built-in table.
  static absl::StatusOr<Families> Builtin();
  // Adds the rows of a table in JSON; errors name `file` and the row.
  absl::Status Add(absl::string_view file, absl::string_view json);

  const std::vector<Family>& rows() const { return rows_; }
  // The family of a model type, or null.
  const Family* Find(absl::string_view model_type) const;
  // "mixtral, qwen2_moe, ...": the model types that are known.
  std::string Known() const;

 private:
  std::vector<Family> rows_;
};

// Where a tensor's name says it belongs.
struct LayerName {
  std::string prefix;  // "model." or "language_model.model."
  int layer = -1;      // -1: in no layer; then `rest` is the whole name
  std::string rest;    // after "layers.{l}."
};
LayerName SplitLayer(absl::string_view name);

// Whether `rest` matches `pattern`. With {e} in the pattern `*expert` is the index, and `*digits`
// where its digits begin in `rest`.
bool MatchPattern(absl::string_view pattern, absl::string_view rest, int* expert, size_t* digits);

}  // namespace foreshock::proxy
