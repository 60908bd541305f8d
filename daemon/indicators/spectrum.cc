#include "daemon/indicators/spectrum.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::indicators {
namespace {

struct Entropy {
  double value = 0;
  double total = 1;  // sum of the weights over the largest
};

// Entropy of weights that are given over the largest, which is 1 and is left out of `others`:
// ln(1 + s) + sum(w ln(1/w)) / (1 + s) with s their sum. No term is negative, nothing cancels.
template <typename WeightOf>
Entropy EntropyOf(absl::Span<const double> others, const WeightOf& weight_of) {
  double sum = 0, weighted = 0;
  for (double ratio : others) {
    const double weight = weight_of(ratio);
    if (weight <= 0) continue;
    sum += weight;
    weighted -= weight * std::log(weight);
  }
  return {std::log1p(sum) + weighted / (1 + sum), 1 + sum};
}

// `ratios`: sigma over the largest without the largest itself.
model::Spectrum SpectrumOfRatios(absl::Span<const double> ratios, double largest, int exponent,
                                 uint32_t rank_bound) {
  model::Spectrum spectrum;
  const Entropy squared = EntropyOf(ratios, [](double x) { return x * x; });
  const Entropy plain = EntropyOf(ratios, [](double x) { return x; });
  const double bound = std::log(static_cast<double>(rank_bound));
  spectrum.set_defined(true);
  spectrum.set_rank_bound(rank_bound);
  spectrum.set_entropy(std::min(squared.value, bound));
  spectrum.set_entropy_l1(std::min(plain.value, bound));
  spectrum.set_stable_rank(std::min(squared.total, EffectiveRank(squared.value, rank_bound)));
  spectrum.set_norm(std::ldexp(largest * std::sqrt(squared.total), exponent));
  spectrum.set_l1_reliable(true);
  return spectrum;
}

model::Spectrum NoSpectrum(uint32_t rank_bound) {
  model::Spectrum spectrum;
  spectrum.set_rank_bound(rank_bound);
  return spectrum;
}

}  // namespace

double EffectiveRank(double entropy, uint32_t rank_bound) {
  return std::min(std::exp(entropy), static_cast<double>(rank_bound));
}

model::Spectrum SpectrumOfSingularValues(absl::Span<const double> sigma, int exponent,
                                         uint32_t rank_bound, uint32_t dimension) {
  std::vector<double> ratios(sigma.begin(), sigma.end());
  const auto top = std::max_element(ratios.begin(), ratios.end());
  if (top == ratios.end() || !(*top > 0)) return NoSpectrum(rank_bound);
  const double largest = *top;
  std::iter_swap(top, ratios.end() - 1);
  ratios.pop_back();
  const double least = std::numeric_limits<double>::epsilon() * dimension;
  for (double& ratio : ratios) {
    ratio /= largest;
    if (ratio < least) ratio = 0;
  }
  return SpectrumOfRatios(ratios, largest, exponent, rank_bound);
}

model::Spectrum SpectrumOfEigenvalues(absl::Span<const double> lambda, int exponent,
                                      uint32_t rank_bound, double epsilon, double error) {
  std::vector<double> values(lambda.begin(), lambda.end());
  const auto top = std::max_element(values.begin(), values.end());
  if (top == values.end() || !(*top > 0)) return NoSpectrum(rank_bound);
  const double largest = *top;
  std::iter_swap(top, values.end() - 1);
  values.pop_back();
  const double least = static_cast<double>(lambda.size()) * epsilon * largest;
  const double relative_error = error / largest;
  double total = 1, total_error = 0;
  for (double& value : values) {
    value = value < least ? 0 : std::sqrt(value / largest);
    if (value == 0) continue;
    total += value;
    total_error += std::min(std::sqrt(relative_error), relative_error / (2 * value));
  }
  model::Spectrum spectrum = SpectrumOfRatios(values, std::sqrt(largest), exponent, rank_bound);
  spectrum.set_l1_reliable(total_error <= 0.25 * total);
  return spectrum;
}

}  // namespace foreshock::indicators
