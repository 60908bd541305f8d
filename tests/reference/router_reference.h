// Slow, obvious router, load and policy statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace foreshock::reference {

enum class Gate { kSoftmaxLogits, kSigmoidLogits, kSoftmax, kSigmoid };

struct GateStatistics {
  double token_entropy = 0, token_entropy_min = 0, token_entropy_std = 0;
  double mutual_information = 0;  // over ln E
  double top_k_mass = 0, z = 0, bias_overlap = 0;
  double logit_mean = 0, logit_std = 0, logit_absmax = 0;
  std::vector<double> margins;
  std::vector<int64_t> counts;
};

// scores: [tokens, experts] by rows. bias empty: none. k < experts. Ties: lowest index.
GateStatistics Gates(const std::vector<double>& scores, size_t experts, Gate gate, size_t k,
                     const std::vector<double>& bias);

struct LoadStatistics {
  double max_violation = 0, min_violation = 0, mean_violation = 0, cv = 0, entropy = 0;
};
LoadStatistics Load(const std::vector<double>& counts);

struct RouterStatistics {
  double similarity = 0, conditioning = 0, kappa = 0, effective_rank = 0;
};
// weights: [experts, d] by rows, no zero row, centred mean not 0, d >= experts - 1 >= 2.
RouterStatistics RouterWeights(const std::vector<double>& weights, size_t experts);

struct PolicyStatistics {
  double k1 = 0, k3 = 0, tail = 0, ratio_mean = 0, ratio_std = 0, ess = 0, chi2 = 0, pearson = 0;
};
PolicyStatistics Policy(const std::vector<double>& trainer, const std::vector<double>& rollout,
                        const std::vector<double>& weights);

}  // namespace foreshock::reference
