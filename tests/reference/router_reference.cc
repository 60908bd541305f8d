#include "tests/reference/router_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/reference/spectrum_reference.h"

namespace foreshock::reference {
namespace {

std::vector<size_t> TopK(const std::vector<double>& scores, size_t k) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(k);
  return order;
}

double Entropy(const std::vector<double>& p) {
  double entropy = 0;
  for (double x : p) {
    if (x > 0) entropy -= x * std::log(x);
  }
  return entropy;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double StandardDeviation(const std::vector<double>& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (double x : values) sum += (x - mean) * (x - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

GateStatistics Gates(const std::vector<double>& scores, size_t experts, Gate gate, size_t k,
                     const std::vector<double>& bias) {
  GateStatistics out;
  out.counts.resize(experts);
  std::vector<double> entropies, mean_p(experts), mass, z, overlap;
  const size_t tokens = scores.size() / experts;
  for (size_t t = 0; t < tokens; ++t) {
    const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(t * experts);
    const std::vector<double> row(begin, begin + static_cast<std::ptrdiff_t>(experts));
    // Gate scores, then the distribution they make.
    std::vector<double> score(experts);
    const double top = *std::max_element(row.begin(), row.end());
    for (size_t e = 0; e < experts; ++e) {
      switch (gate) {
        case Gate::kSoftmaxLogits:
          score[e] = std::exp(row[e] - top);
          break;
        case Gate::kSigmoidLogits:
          score[e] = 1 / (1 + std::exp(-row[e]));
          break;
        default:
          score[e] = row[e];
      }
    }
    const double sum = std::accumulate(score.begin(), score.end(), 0.0);
    std::vector<double> p = score;
    for (double& x : p) x /= sum;
    if (gate == Gate::kSoftmaxLogits || gate == Gate::kSoftmax) score = p;
    entropies.push_back(Entropy(p));
    for (size_t e = 0; e < experts; ++e) mean_p[e] += p[e] / static_cast<double>(tokens);
    double partition = 0;
    for (double x : row) partition += std::exp(x - top);
    z.push_back(std::pow(top + std::log(partition), 2));
    std::vector<double> biased = score;
    for (size_t e = 0; e < bias.size(); ++e) biased[e] += bias[e];
    const std::vector<size_t> chosen = TopK(biased, k + 1);
    double kept = 0;
    for (size_t i = 0; i < k; ++i) {
      ++out.counts[chosen[i]];
      kept += p[chosen[i]];
    }
    mass.push_back(kept);
    out.margins.push_back(biased[chosen[k - 1]] - biased[chosen[k]]);
    std::set<size_t> both;
    for (size_t e : TopK(score, k)) both.insert(e);
    for (size_t i = 0; i < k; ++i) both.insert(chosen[i]);
    overlap.push_back(static_cast<double>(2 * k - both.size()) / static_cast<double>(both.size()));
  }
  out.token_entropy = Mean(entropies);
  out.token_entropy_min = *std::min_element(entropies.begin(), entropies.end());
  out.token_entropy_std = StandardDeviation(entropies);
  out.mutual_information =
      (Entropy(mean_p) - out.token_entropy) / std::log(static_cast<double>(experts));
  out.top_k_mass = Mean(mass);
  out.z = Mean(z);
  out.bias_overlap = Mean(overlap);
  out.logit_mean = Mean(scores);
  out.logit_std = StandardDeviation(scores);
  for (double x : scores) out.logit_absmax = std::max(out.logit_absmax, std::abs(x));
  return out;
}

LoadStatistics Load(const std::vector<double>& counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double experts = static_cast<double>(counts.size());
  std::vector<double> q, relative;
  LoadStatistics out;
  for (double count : counts) {
    q.push_back(count / total);
    relative.push_back(experts * count / total);
    out.mean_violation += std::abs(relative.back() - 1) / experts;
  }
  out.max_violation = *std::max_element(relative.begin(), relative.end()) - 1;
  out.min_violation = *std::min_element(relative.begin(), relative.end()) - 1;
  out.cv = StandardDeviation(q) / Mean(q);
  out.entropy = Entropy(q);
  return out;
}

RouterStatistics RouterWeights(const std::vector<double>& weights, size_t experts) {
  const size_t d = weights.size() / experts;
  const auto dot = [&](size_t i, size_t j) {
    double sum = 0;
    for (size_t c = 0; c < d; ++c) sum += weights[i * d + c] * weights[j * d + c];
    return sum;
  };
  const double n = static_cast<double>(experts);
  RouterStatistics out;
  for (size_t i = 0; i < experts; ++i) {
    for (size_t j = 0; j < experts; ++j) {
      if (i != j) out.similarity += dot(i, j) / std::sqrt(dot(i, i) * dot(j, j)) / (n * (n - 1));
    }
  }
  std::vector<double> mean(d), centred = weights;  // [experts, d] by rows = [d, experts] by columns
  for (size_t i = 0; i < weights.size(); ++i) mean[i % d] += weights[i] / n;
  double mean_norm = 0, furthest = 0;
  for (double x : mean) mean_norm += x * x;
  for (size_t e = 0; e < experts; ++e) {
    double distance = 0;
    for (size_t c = 0; c < d; ++c) {
      centred[e * d + c] -= mean[c];
      distance += centred[e * d + c] * centred[e * d + c];
    }
    furthest = std::max(furthest, distance);
  }
  out.conditioning = std::sqrt(furthest / mean_norm);
  const Spectrum spectrum = SpectrumOf(centred, d, experts);
  out.kappa = spectrum.sigma[0] / spectrum.sigma[experts - 2];
  out.effective_rank = spectrum.effective_rank;
  return out;
}

PolicyStatistics Policy(const std::vector<double>& trainer, const std::vector<double>& rollout,
                        const std::vector<double>& weights) {
  double n = 0;
  PolicyStatistics out;
  double square = 0, mean_p = 0, mean_q = 0;
  for (size_t i = 0; i < trainer.size(); ++i) {
    const double w = weights[i];
    const double delta = std::clamp(trainer[i] - rollout[i], -20.0, 20.0);
    const double rho = std::exp(delta);
    n += w;
    out.k1 -= w * delta;
    out.k3 += w * (rho - delta - 1);
    out.tail += std::max(rho, 1 / rho) > 2 ? w : 0;
    out.ratio_mean += w * rho;
    square += w * rho * rho;
    mean_p += w * std::exp(trainer[i]);
    mean_q += w * std::exp(rollout[i]);
  }
  for (double* x : {&out.k1, &out.k3, &out.tail, &out.ratio_mean, &square, &mean_p, &mean_q}) {
    *x /= n;
  }
  double variance = 0, pp = 0, qq = 0, pq = 0;
  for (size_t i = 0; i < trainer.size(); ++i) {
    const double rho = std::exp(std::clamp(trainer[i] - rollout[i], -20.0, 20.0));
    const double p = std::exp(trainer[i]) - mean_p, q = std::exp(rollout[i]) - mean_q;
    variance += weights[i] * (rho - out.ratio_mean) * (rho - out.ratio_mean) / n;
    pp += weights[i] * p * p;
    qq += weights[i] * q * q;
    pq += weights[i] * p * q;
  }
  out.ratio_std = std::sqrt(variance);
  out.ess = out.ratio_mean * out.ratio_mean / square;
  out.chi2 = square - 1;
  out.pearson = pq / std::sqrt(pp * qq);
  return out;
}

}  // namespace foreshock::reference
