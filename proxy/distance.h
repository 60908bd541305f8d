// How unlike two experts of a layer are, in three views; each result is [E, E], symmetric, 0 on the
// diagonal. A cosine with a vector of zeros says nothing: its distance is 1.
#pragma once

#include <Eigen/Core>
#include <vector>

#include "proxy/calibration.h"

namespace foreshock::proxy {

// 1 - cos of the router's rows, in [0, 2]; `centre` takes their mean away first, which softmax
// ignores.
Matrix RouterDistances(const Matrix& rows, bool centre);

enum class Coactivation {
  kProfile,  // 1 - cos of (N_im / f_m) over m other than i and j: the same partners
  kRaw,      // 1 - cos of (N_im) over the same m
  kDirect,   // 1 - N_ij / min(f_i, f_j): chosen together
  // The root of the Jensen-Shannon divergence, in bits, of (N_im / f_m) over the same m, each row
  // divided by its sum: a metric. O(E^3) logarithms.
  kJensenShannon,
};
// In [0, 1]. `counts` is N with f on its diagonal.
Matrix CoactivationDistances(const Matrix& counts, Coactivation form);

// 1 - cos of the experts' mean inputs with the mean over all tokens taken away, in [0, 2].
Matrix ContextDistances(const LayerStats& stats);

// The median of the entries above the diagonal among `members`; 0 for fewer than two members.
double MedianDistance(const Matrix& distances, const std::vector<int>& members);

}  // namespace foreshock::proxy
