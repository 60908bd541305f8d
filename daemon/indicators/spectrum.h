// Spectra: from singular values or eigenvalues to entropies, stable rank and norm
// (docs/indicators/attention.md 1.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// `sigma`: singular values in any order, >= 0, in units of 2^exponent. rank_bound m: the largest
// possible number of non-zero ones. Values under eps * largest * dimension count as 0.
// Both exponents hold the relative accuracy of the singular values. defined = false if all are 0.
model::Spectrum SpectrumOfSingularValues(absl::Span<const double> sigma, int exponent,
                                         uint32_t rank_bound, uint32_t dimension);

// `lambda`: eigenvalues of X^T X (sigma = sqrt lambda) in units of 4^exponent, each within `error`
// of the truth, from products of matrices with unit roundoff 2 * `epsilon`. Values under
// n * epsilon * largest count as 0. Exponent 2 holds to about `error` over the largest; exponent 1
// to 1e-9 where every true sigma is 0 or above 1e-5 of the largest; l1_reliable is false where
// `error` could move it by a quarter.
model::Spectrum SpectrumOfEigenvalues(absl::Span<const double> lambda, int exponent,
                                      uint32_t rank_bound, double epsilon, double error);

// exp(entropy), clamped to the range that rounding may leave by an ulp.
double EffectiveRank(double entropy, uint32_t rank_bound);

}  // namespace foreshock::indicators
