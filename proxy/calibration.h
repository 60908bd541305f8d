// Calibration: sums over one pass of text through the model, one safetensors file or several that
// add. Names are layers.{l}.NAME; what is absent cannot be used, the rest can:
//
//   tokens            I64 []       T
//   frequency         I64 [E]      tokens that chose the expert
//   coactivation      I64 [E, E]   tokens that chose both; the diagonal is the frequency
//   input_sum         F64 [d]      sum of the router's input over all tokens
//   expert_input_sum  F64 [E, d]   ... over the tokens that chose the expert
//   gate_sum          F64 [E]      sum of the gates
//   expert_norm_sum   F64 [E]      sum of the norms of the expert's output
//   gated_norm_sum    F64 [E]      sum of gate times norm
//   probability_sum   F64 [E]      sum of the router's probabilities over all experts: the softmax,
//                                  or sigmoid scores divided by their sum
//   entropy_sum       F64 []       sum of the entropies of those probabilities, in nats
//   margin_histogram  I64 [64]     tokens by the margin of their choice: the lowest chosen score
//                                  less the highest other; bin b begins at 2^((b - 62) / 2), 0 at 0
//
// Metadata: format = foreshock.calibration.v1, model_type, experts, top_k.
#pragma once

#include <Eigen/Core>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/model.h"
#include "proxy/safetensors.h"

namespace foreshock::proxy {

constexpr int kMarginBins = 64;

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

// The sums of one layer; counts are whole numbers below 2^53.
struct LayerStats {
  double tokens = 0;
  Vector frequency;
  std::optional<Matrix> coactivation;
  std::optional<Vector> input_sum;
  std::optional<Matrix> expert_input_sum;
  std::optional<Vector> gate_sum;
  std::optional<Vector> expert_norm_sum;
  std::optional<Vector> gated_norm_sum;
  std::optional<Vector> probability_sum;
  std::optional<double> entropy_sum;
  std::optional<Vector> margin_histogram;
};

class Calibration {
 public:
  // Refuses files of another model: type, E, top-k.
  static absl::StatusOr<Calibration> Open(const std::vector<std::string>& paths,
                                          const Model& model);

  bool Has(int layer) const;
  // The layer's sums over all files. Checks that they belong together: sum of f = k T, N symmetric
  // with f on its diagonal and (k - 1) f beside it, nothing negative or not finite.
  absl::StatusOr<LayerStats> Load(int layer) const;
  // Of each file, in the order of the paths.
  const std::vector<std::string>& sha256() const { return sha256_; }

 private:
  struct Part {
    InputFile file;
    Header header;
  };
  std::vector<Part> parts_;
  std::vector<std::string> sha256_;
  int experts_ = 0;
  int top_k_ = 0;
  int hidden_ = 0;
};

// A calibration file of these layers, with what each of them has.
absl::Status WriteCalibration(const std::string& path, const Model& model,
                              const std::map<int, LayerStats>& layers);

// A tensor of two dimensions or fewer as numbers: F64, F32, BF16, F16 or I64.
absl::StatusOr<Matrix> ReadMatrix(const InputFile& file, const Tensor& tensor);

}  // namespace foreshock::proxy
