// The spectra of one head over one window (docs/indicators/attention.md 1.1 to 1.4). Nothing of
// size d x d is ever formed.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/model/shards.pb.h"

namespace foreshock::indicators {

// Q and K at the base and their changes, each [d, r] column-major (column c is row c of the head in
// PyTorch's [out, in]), finite.
struct QkWindow {
  const double* q = nullptr;
  const double* k = nullptr;
  const double* delta_q = nullptr;
  const double* delta_k = nullptr;
  uint32_t d = 0;
  uint32_t r = 0;
  uint32_t significand_bits = 24;  // of the weights, for the grid gate
};

// Both exponents to 1e-9 relative. Spectra well above rounding noise come from double Gram matrices
// (Cholesky, values-only eigenvalues): 4 d r^2 + O(r^3) multiplications per factor. Where the error
// bound 8 eps |G_A| |G_B| / lambda_min shows that this would lose exponent 1, from the singular
// values of the 2r x 2r core R_A R_B^T of two Householder QRs (twice the work and more). Any scale
// that double can hold. Thread-safe.
model::QkSpectra SpectraFromFactors(const QkWindow& window);

// Balanced Grams G_A = A'^T A', G_B = B'^T B' (2r x 2r, full, column-major), A' = [dQ/a, Q/q],
// B' = [aK, q dK]; a and q powers of two.
struct QkGrams {
  std::vector<double> gram_a;
  std::vector<double> gram_b;
  double a = 1;
  double q = 1;
  uint32_t d = 0;
  uint32_t r = 0;
  uint32_t significand_bits = 24;
  bool single_precision = false;  // the Grams were computed in float32
};

// Exponent 2 to about 1e-9; exponent 1 as SpectrumOfEigenvalues says.
model::QkSpectra SpectraFromGrams(const QkGrams& grams);

}  // namespace foreshock::indicators
