#include "proxy/medoids.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace foreshock::proxy {
namespace {

constexpr double kGainLeast = 1e-12;

// The nearest and the second nearest medoid of every expert.
struct Nearest {
  std::vector<int> slot;  // position of the nearest in the list of medoids
  std::vector<double> first;
  std::vector<double> second;
};

Nearest FindNearest(const Matrix& distances, const std::vector<int>& medoids) {
  const auto experts = static_cast<size_t>(distances.rows());
  constexpr double kFar = std::numeric_limits<double>::infinity();
  Nearest nearest{std::vector<int>(experts, 0), std::vector<double>(experts, kFar),
                  std::vector<double>(experts, kFar)};
  for (size_t i = 0; i < experts; ++i) {
    for (size_t slot = 0; slot < medoids.size(); ++slot) {
      const double distance = distances(static_cast<Eigen::Index>(i), medoids[slot]);
      if (distance < nearest.first[i]) {
        nearest.second[i] = nearest.first[i];
        nearest.first[i] = distance;
        nearest.slot[i] = static_cast<int>(slot);
      } else if (distance < nearest.second[i]) {
        nearest.second[i] = distance;
      }
    }
  }
  return nearest;
}

}  // namespace

std::vector<int> Ranking(const Vector& score, const Vector& frequency) {
  std::vector<int> order(static_cast<size_t>(score.size()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    if (score(a) != score(b)) return score(a) > score(b);
    if (frequency(a) != frequency(b)) return frequency(a) > frequency(b);
    return a < b;
  });
  return order;
}

std::vector<int> Medoids(const Matrix& distances, const Vector& weight, const Vector& frequency,
                         int keep) {
  // In the order in which ties are decided.
  const std::vector<int> order = Ranking(frequency, frequency);
  std::vector<int> medoids(order.begin(), order.begin() + keep);
  const auto experts = static_cast<size_t>(distances.rows());
  std::vector<bool> chosen(experts, false);
  for (const int m : medoids) chosen[static_cast<size_t>(m)] = true;
  std::vector<double> change(medoids.size());
  while (true) {
    const Nearest nearest = FindNearest(distances, medoids);
    double best = -kGainLeast;
    int best_in = -1;
    size_t best_slot = 0;
    // The cost's change for one newcomer and every medoid that could leave for it, in one pass over
    // the experts: what it gains where it is nearer, what a leaving medoid's own experts lose.
    for (const int in : order) {
      if (chosen[static_cast<size_t>(in)]) continue;
      std::fill(change.begin(), change.end(), 0.0);
      double gain = 0;
      for (size_t i = 0; i < experts; ++i) {
        const auto row = static_cast<Eigen::Index>(i);
        const double distance = distances(row, in);
        const double closer = std::min(0.0, distance - nearest.first[i]);
        gain += weight(row) * closer;
        const double alone = std::min(distance, nearest.second[i]) - nearest.first[i];
        change[static_cast<size_t>(nearest.slot[i])] += weight(row) * (alone - closer);
      }
      for (size_t slot = 0; slot < medoids.size(); ++slot) {
        // A later pair must be better by more than rounding: earlier in the order wins ties.
        const double total = gain + change[slot];
        if (total < best - (best_in < 0 ? 0 : kGainLeast)) {
          best = total;
          best_in = in;
          best_slot = slot;
        }
      }
    }
    if (best_in < 0) break;
    chosen[static_cast<size_t>(medoids[best_slot])] = false;
    chosen[static_cast<size_t>(best_in)] = true;
    medoids[best_slot] = best_in;
  }
  std::sort(medoids.begin(), medoids.end());
  return medoids;
}

}  // namespace foreshock::proxy
