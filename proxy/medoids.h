// K-medoids by swaps (PAM). Deterministic: ties go to the larger frequency, then the lower index.
#pragma once

#include <vector>

#include "proxy/calibration.h"

namespace foreshock::proxy {

// Indices of the `keep` medoids, ascending, of the least sum over i of weight(i) times the distance
// to the nearest medoid that swapping one medoid for another expert can reach from the start, the
// most frequent. A swap must lower the cost by more than 1e-12. Needs 1 <= keep <= E.
std::vector<int> Medoids(const Matrix& distances, const Vector& weight, const Vector& frequency,
                         int keep);

// The indices of `score` from the largest on; ties by the larger `frequency`, then the lower index.
std::vector<int> Ranking(const Vector& score, const Vector& frequency);

}  // namespace foreshock::proxy
