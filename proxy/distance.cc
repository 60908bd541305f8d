#include "proxy/distance.h"

#include <algorithm>
#include <cmath>

#include "proxy/gram.h"

namespace foreshock::proxy {
namespace {

double CosineDistance(double dot, double a, double b) {
  if (a <= 0 || b <= 0) return 1;
  return std::clamp(1 - dot / std::sqrt(a) / std::sqrt(b), 0.0, 2.0);
}

// The dot products of all pairs of rows; the lower half only.
Matrix Gram(const Matrix& rows) {
  Matrix gram = Matrix::Zero(rows.rows(), rows.rows());
  BestGram()(rows.data(), rows.rows(), rows.cols(), gram.data());
  return gram;
}

// Squares of row i, which add to `sum`, without column j.
double SumWithout(const Matrix& rows, double sum, Eigen::Index i, Eigen::Index j) {
  const double one = rows(i, j) * rows(i, j);
  // Where little is left the difference would be rounding.
  if (one < 0.5 * sum) return sum - one;
  double rest = 0;
  for (Eigen::Index m = 0; m < rows.cols(); ++m) {
    if (m != j) rest += rows(i, m) * rows(i, m);
  }
  return rest;
}

// Of rows i and j without their own columns; 1 where one of them is empty.
double JensenShannon(const Matrix& rows, Eigen::Index i, Eigen::Index j) {
  double sum_i = 0;
  double sum_j = 0;
  for (Eigen::Index m = 0; m < rows.cols(); ++m) {
    if (m == i || m == j) continue;
    sum_i += rows(i, m);
    sum_j += rows(j, m);
  }
  if (!(sum_i > 0) || !(sum_j > 0)) return 1;
  double bits = 0;
  for (Eigen::Index m = 0; m < rows.cols(); ++m) {
    if (m == i || m == j) continue;
    const double p = rows(i, m) / sum_i;
    const double q = rows(j, m) / sum_j;
    const double middle = 0.5 * (p + q);
    if (p > 0) bits += 0.5 * p * std::log2(p / middle);
    if (q > 0) bits += 0.5 * q * std::log2(q / middle);
  }
  return std::sqrt(std::clamp(bits, 0.0, 1.0));
}

Matrix CosineDistances(const Matrix& rows) {
  const Matrix gram = Gram(rows);
  Matrix distances = Matrix::Zero(rows.rows(), rows.rows());
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    for (Eigen::Index j = 0; j < i; ++j) {
      distances(i, j) = distances(j, i) = CosineDistance(gram(i, j), gram(i, i), gram(j, j));
    }
  }
  return distances;
}

}  // namespace

Matrix RouterDistances(const Matrix& rows, bool centre) {
  if (!centre) return CosineDistances(rows);
  return CosineDistances(rows.rowwise() - rows.colwise().mean());
}

Matrix CoactivationDistances(const Matrix& counts, Coactivation form) {
  const Eigen::Index experts = counts.rows();
  Matrix distances = Matrix::Zero(experts, experts);
  Matrix profiles = counts;
  if (form == Coactivation::kProfile || form == Coactivation::kJensenShannon) {
    for (Eigen::Index m = 0; m < experts; ++m) {
      if (counts(m, m) > 0) profiles.col(m) /= counts(m, m);
    }
  }
  // A pair's own columns do not count: with a diagonal of zeros they add nothing to the product.
  profiles.diagonal().setZero();
  const Matrix gram = Gram(profiles);
  for (Eigen::Index i = 0; i < experts; ++i) {
    for (Eigen::Index j = 0; j < i; ++j) {
      double distance = 1;
      if (form == Coactivation::kDirect) {
        const double least = std::min(counts(i, i), counts(j, j));
        if (least > 0) distance = 1 - counts(i, j) / least;
      } else if (form == Coactivation::kJensenShannon) {
        distance = JensenShannon(profiles, i, j);
      } else {
        distance = CosineDistance(gram(i, j), SumWithout(profiles, gram(i, i), i, j),
                                  SumWithout(profiles, gram(j, j), j, i));
      }
      distances(i, j) = distances(j, i) = distance;
    }
  }
  return distances;
}

Matrix ContextDistances(const LayerStats& stats) {
  Matrix means = *stats.expert_input_sum;
  const Vector mean = *stats.input_sum / std::max(stats.tokens, 1.0);
  for (Eigen::Index e = 0; e < means.rows(); ++e) {
    if (stats.frequency(e) > 0) {
      means.row(e) = means.row(e) / stats.frequency(e) - mean.transpose();
    } else {
      means.row(e).setZero();
    }
  }
  return CosineDistances(means);
}

double MedianDistance(const Matrix& distances, const std::vector<int>& members) {
  std::vector<double> values;
  for (size_t a = 0; a < members.size(); ++a) {
    for (size_t b = 0; b < a; ++b) values.push_back(distances(members[a], members[b]));
  }
  if (values.empty()) return 0;
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  if (values.size() % 2 == 1) return *half;
  return (*std::max_element(values.begin(), half) + *half) / 2;
}

}  // namespace foreshock::proxy
