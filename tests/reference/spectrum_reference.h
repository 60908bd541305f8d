// Slow, obvious spectra: dense matrices and a dense SVD.
#pragma once

#include <cstddef>
#include <vector>

namespace foreshock::reference {

struct Spectrum {
  bool defined = false;
  std::vector<double> sigma;  // descending
  double entropy = 0;
  double entropy_l1 = 0;
  double effective_rank = 0;
  double effective_rank_l1 = 0;
  double stable_rank = 0;
  double norm = 0;
};

// matrix: rows x columns by columns, any scale.
Spectrum SpectrumOf(const std::vector<double>& matrix, size_t rows, size_t columns);
std::vector<double> SingularValues(const std::vector<double>& matrix, size_t rows, size_t columns);

// Q, K and their changes, [d, r] by columns.
struct Head {
  size_t d = 0, r = 0;
  std::vector<double> q, k, delta_q, delta_k;
};

struct QkSpectra {
  Spectrum delta2, delta3, delta_q, delta_k, qk;
  double grid_ratio = 0;
};

// Forms the d x d matrices. significand_bits: of the weights, for the grid ratio.
QkSpectra SpectraOf(const Head& head, int significand_bits);

// x y^T, [d, d] by columns; x, y: [d, r].
std::vector<double> OuterProduct(const std::vector<double>& x, const std::vector<double>& y,
                                 size_t d, size_t r);

}  // namespace foreshock::reference
