#include "tests/reference/spectrum_reference.h"

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::reference {
namespace {

double EntropyOf(const std::vector<double>& weights) {
  double total = 0, entropy = 0;
  for (double w : weights) total += w;
  for (double w : weights) {
    if (w > 0) entropy -= w / total * std::log(w / total);
  }
  return entropy;
}

double SquareSum(const std::vector<double>& values) {
  double sum = 0;
  for (double x : values) sum += x * x;
  return sum;
}

}  // namespace

std::vector<double> SingularValues(const std::vector<double>& matrix, size_t rows, size_t columns) {
  double largest = 0;
  for (double x : matrix) largest = std::max(largest, std::abs(x));
  if (largest == 0) return std::vector<double>(std::min(rows, columns));
  const Eigen::MatrixXd scaled =
      Eigen::Map<const Eigen::MatrixXd>(matrix.data(), static_cast<Eigen::Index>(rows),
                                        static_cast<Eigen::Index>(columns)) /
      largest;
  const Eigen::VectorXd sigma = Eigen::JacobiSVD<Eigen::MatrixXd>(scaled).singularValues();
  std::vector<double> values(sigma.data(), sigma.data() + sigma.size());
  for (double& value : values) value *= largest;
  return values;
}

Spectrum SpectrumOf(const std::vector<double>& matrix, size_t rows, size_t columns) {
  Spectrum spectrum;
  spectrum.sigma = SingularValues(matrix, rows, columns);
  const double top = spectrum.sigma.empty() ? 0 : spectrum.sigma[0];
  if (top == 0) return spectrum;
  spectrum.defined = true;
  std::vector<double> plain, squares;
  const double least =
      std::numeric_limits<double>::epsilon() * static_cast<double>(std::max(rows, columns));
  for (double sigma : spectrum.sigma) {
    const double ratio = sigma / top < least ? 0 : sigma / top;
    plain.push_back(ratio);
    squares.push_back(ratio * ratio);
  }
  spectrum.entropy = EntropyOf(squares);
  spectrum.entropy_l1 = EntropyOf(plain);
  spectrum.effective_rank = std::exp(spectrum.entropy);
  spectrum.effective_rank_l1 = std::exp(spectrum.entropy_l1);
  double total = 0;
  for (double square : squares) total += square;
  spectrum.stable_rank = total;
  spectrum.norm = top * std::sqrt(total);
  return spectrum;
}

std::vector<double> OuterProduct(const std::vector<double>& x, const std::vector<double>& y,
                                 size_t d, size_t r) {
  std::vector<double> product(d * d);
  for (size_t c = 0; c < r; ++c) {
    for (size_t j = 0; j < d; ++j) {
      for (size_t i = 0; i < d; ++i) product[i + j * d] += x[i + c * d] * y[j + c * d];
    }
  }
  return product;
}

QkSpectra SpectraOf(const Head& head, int significand_bits) {
  const size_t d = head.d, r = head.r;
  std::vector<double> delta2 = OuterProduct(head.delta_q, head.k, d, r);
  const std::vector<double> other = OuterProduct(head.q, head.delta_k, d, r);
  for (size_t i = 0; i < delta2.size(); ++i) delta2[i] += other[i];
  QkSpectra out;
  out.delta2 = SpectrumOf(delta2, d, d);
  out.delta3 = SpectrumOf(OuterProduct(head.delta_q, head.delta_k, d, r), d, d);
  out.qk = SpectrumOf(OuterProduct(head.q, head.k, d, r), d, d);
  out.delta_q = SpectrumOf(head.delta_q, d, r);
  out.delta_k = SpectrumOf(head.delta_k, d, r);
  double columns = 0;
  for (size_t c = 0; c < r; ++c) {
    const auto column = [&](const std::vector<double>& m) {
      return SquareSum({m.begin() + static_cast<std::ptrdiff_t>(c * d),
                        m.begin() + static_cast<std::ptrdiff_t>((c + 1) * d)});
    };
    columns += column(head.q) * column(head.k);
  }
  const double nu = 0.0902 * std::pow(4.0, 1 - significand_bits);
  out.grid_ratio = 2 * nu * columns / SquareSum(delta2);
  return out;
}

}  // namespace foreshock::reference
