#include "daemon/indicators/qk_spectra.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "daemon/indicators/grid_gate.h"
#include "daemon/indicators/kernels.h"
#include "daemon/indicators/spectrum.h"

namespace foreshock::indicators {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Relative error of the smallest eigenvalue up to which singular values come from Grams.
constexpr double kGramErrorMax = 2e-10;

using Values = std::vector<double>;

// Exponent e with 2^e nearest to `x` > 0.
int NearestExponent(double x) {
  int exponent;
  const double mantissa = std::frexp(x, &exponent);
  return mantissa < 0.7071067811865476 ? exponent - 1 : exponent;
}

double LargestMagnitude(const double* values, size_t n) {
  double largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

// 2^exponent as two factors, so that |exponent| up to 2 000 works on values that end in range.
struct Scale {
  explicit Scale(int exponent)
      : first(std::ldexp(1.0, exponent / 2)), second(std::ldexp(1.0, exponent - exponent / 2)) {}
  double first, second;
  double operator()(double x) const { return x * first * second; }
};

double SquareSum(const double* values, size_t n) {
  double sums[4] = {};  // four chains of additions at once
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += values[i + j] * values[i + j];
  }
  for (; i < n; ++i) sums[0] += values[i] * values[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Exponent e with 2^e nearest to the Frobenius norm, for values of any size; empty for zero.
std::optional<int> NormExponent(const double* values, size_t n) {
  const double square = SquareSum(values, n);
  if (square > 1e-200 && square < 1e300) return NearestExponent(std::sqrt(square));
  const double largest = LargestMagnitude(values, n);
  if (largest == 0) return std::nullopt;
  const int exponent = NearestExponent(largest);
  const Scale scale(-exponent);
  Values scaled(values, values + n);
  for (double& value : scaled) value = scale(value);
  return exponent + NearestExponent(std::sqrt(SquareSum(scaled.data(), n)));
}

// Largest column sum of magnitudes: bounds the spectral norm of a symmetric matrix.
double NormBound(const Values& symmetric, size_t n) {
  double bound = 0;
  for (size_t j = 0; j < n; ++j) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += std::abs(symmetric[i + j * n]);
    bound = std::max(bound, sum);
  }
  return bound;
}

// Rows [row, row + rows) and columns [column, column + columns) of a matrix with `lead` rows.
Values Block(const Values& matrix, size_t lead, size_t row, size_t rows, size_t column,
             size_t columns) {
  Values block(rows * columns);
  for (size_t j = 0; j < columns; ++j) {
    std::copy_n(matrix.begin() + (column + j) * lead + row, rows, block.begin() + j * rows);
  }
  return block;
}

struct Eigenvalues {
  Values values;     // ascending
  double error = 0;  // bound on each
};

Eigenvalues EigenvaluesOf(Values symmetric, size_t n) {
  Eigenvalues result{Values(n), 0};
  result.error = 8 * kEpsilon * NormBound(symmetric, n);
  Values work(5 * n);
  GetKernels().symmetric_eigenvalues(symmetric.data(), n, work.data(), result.values.data());
  return result;
}

// Eigenvalues of P^T G_B P with P P^T = G_A, [n, n] both: the squared singular values of A B^T.
Eigenvalues ProductEigenvalues(const Values& gram_a, const Values& gram_b, size_t n) {
  const Kernels& kernels = GetKernels();
  Values factor = gram_a;
  size_t rank = n;
  if (!kernels.cholesky(factor.data(), n)) {
    Values spoilt = gram_a;
    rank = kernels.semidefinite_factor(spoilt.data(), n, factor.data());
  }
  Eigenvalues result;
  if (rank == 0) return result;
  Values work(n * n), product(rank * rank);
  kernels.congruence(factor.data(), rank, gram_b.data(), n, work.data(), product.data());
  result = EigenvaluesOf(std::move(product), rank);
  result.error = 8 * kEpsilon * NormBound(gram_a, n) * NormBound(gram_b, n);
  result.values.insert(result.values.begin(), n - rank, 0.0);
  return result;
}

bool WellAboveNoise(const Eigenvalues& eigenvalues) {
  return !eigenvalues.values.empty() &&
         eigenvalues.values.front() * kGramErrorMax >= eigenvalues.error;
}

Values SingularValuesOf(Values matrix, size_t m, size_t n) {
  if (m < n) {
    Values transposed(m * n);
    for (size_t j = 0; j < n; ++j) {
      for (size_t i = 0; i < m; ++i) transposed[j + i * n] = matrix[i + j * m];
    }
    matrix = std::move(transposed);
    std::swap(m, n);
  }
  Values values(n), work(2 * m + 8 * n);
  GetKernels().singular_values(matrix.data(), m, n, work.data(), values.data());
  return values;
}

// A B^T, A [m, n], B [p, n].
Values MultiplyTransposed(const Values& a, size_t m, const Values& b, size_t p, size_t n) {
  Values product(m * p);
  GetKernels().multiply_transposed(a.data(), m, b.data(), p, n, product.data());
  return product;
}

// Exponents by which the blocks of A = [dQ, Q] and B = [K, dK] are scaled so that |A| and |B| are
// near 1: true block = scaled block * 2^exponent.
struct Exponents {
  int delta_q = 0, q = 0, k = 0, delta_k = 0;
  int product() const { return delta_q + k; }  // of A B^T; equal to q + delta_k
};

Exponents Balance(const QkWindow& window) {
  const size_t size = size_t{window.d} * window.r;
  Exponents out;
  const std::optional<int> delta_q = NormExponent(window.delta_q, size);
  const std::optional<int> q = NormExponent(window.q, size);
  const std::optional<int> k = NormExponent(window.k, size);
  const std::optional<int> delta_k = NormExponent(window.delta_k, size);
  out.q = q.value_or(0);
  // dQ = 0: a near |Q| |dK| / |K| makes the blocks of B alike.
  out.delta_q = delta_q.value_or(delta_k.has_value() ? out.q + *delta_k - k.value_or(0) : out.q);
  // B = [aK, q dK] / 2^s with the larger block near 1.
  const int block_k = out.delta_q + k.value_or(0);
  const int block_delta_k = delta_k.has_value() ? out.q + *delta_k : block_k;
  const int s = k.has_value() ? std::max(block_k, block_delta_k) : block_delta_k;
  out.k = s - out.delta_q;
  out.delta_k = s - out.q;
  return out;
}

// Two blocks [d, r] side by side and scaled: A or B.
struct Pair {
  const double* first;
  const double* second;
  int first_exponent, second_exponent;
  size_t d, r;

  // Rows [begin, begin + rows) into `out` [rows, 2r].
  void Copy(size_t begin, size_t rows, double* out) const {
    const Scale scales[] = {Scale(-first_exponent), Scale(-second_exponent)};
    const double* blocks[] = {first, second};
    for (size_t b = 0; b < 2; ++b) {
      for (size_t c = 0; c < r; ++c) {
        const double* column = blocks[b] + c * d + begin;
        for (size_t i = 0; i < rows; ++i) *out++ = scales[b](column[i]);
      }
    }
  }
  Values All() const {
    Values all(2 * d * r);
    Copy(0, d, all.data());
    return all;
  }
  // By panels of rows that stay in the cache.
  Values Gram() const {
    constexpr size_t kPanelRows = 256;
    const size_t n = 2 * r;
    const Kernels& kernels = GetKernels();
    Values panel(std::min(d, kPanelRows) * n), gram(n * n);
    for (size_t begin = 0; begin < d; begin += kPanelRows) {
      const size_t rows = std::min(d - begin, kPanelRows);
      Copy(begin, rows, panel.data());
      kernels.add_gram(panel.data(), rows, n, gram.data());
    }
    kernels.mirror_lower(gram.data(), n);
    return gram;
  }
};

// Frobenius norm of a block of columns, in true units.
double BlockNorm(const Values& gram, size_t n, size_t begin, size_t count, int exponent) {
  double trace = 0;
  for (size_t i = begin; i < begin + count; ++i) trace += gram[i + i * n];
  return std::ldexp(std::sqrt(std::max(trace, 0.0)), exponent);
}

// eta of 1.8 from the diagonals of G_A and G_B, in the units of A and B:
// |Q_c|^2 |K_c|^2 = 4^(q + k) (G_A)_II (G_B)_I, |Delta2|^2 = 4^(product) |A B^T|^2.
double GridRatio(const Values& gram_a, const Values& gram_b, size_t r, int q, int k,
                 const model::Spectrum& delta2, uint32_t bits) {
  const size_t n = 2 * r;
  double sum = 0;
  for (size_t c = 0; c < r; ++c) {
    sum += gram_a[(r + c) + (r + c) * n] * gram_b[c + c * n];
  }
  const double norm = std::ldexp(delta2.norm(), -(q + k));
  return 2 * GridNoise(bits) * (sum / norm) / norm;
}

// Lazily computed QR factors of A and B, for spectra that Grams cannot resolve.
class Cores {
 public:
  Cores(const Pair& a, const Pair& b) : a_(a), b_(b) {}

  const Values& r_a() { return Factor(&r_a_, a_); }
  const Values& r_b() { return Factor(&r_b_, b_); }

 private:
  static const Values& Factor(std::optional<Values>* factor, const Pair& pair) {
    if (!factor->has_value()) {
      const size_t n = 2 * pair.r;
      Values spoilt = pair.All();
      factor->emplace(n * n);
      GetKernels().qr_factor(spoilt.data(), pair.d, n, (*factor)->data());
    }
    return **factor;
  }

  const Pair a_, b_;
  std::optional<Values> r_a_, r_b_;
};

// Spectra when 2r >= d: the products are at most 2r x 2r as they are.
model::QkSpectra SpectraOfNarrow(const Pair& a_pair, const Pair& b_pair, const Exponents& m) {
  const size_t d = a_pair.d, r = a_pair.r;
  const auto size = static_cast<std::ptrdiff_t>(d * r);
  const Values a = a_pair.All(), b = b_pair.All();
  const auto spectrum = [&](Values values, int exponent, size_t bound) {
    return SpectrumOfSingularValues(values, exponent, static_cast<uint32_t>(bound),
                                    static_cast<uint32_t>(d));
  };
  const Values dq(a.begin(), a.begin() + size), q(a.begin() + size, a.end());
  const Values k(b.begin(), b.begin() + size), dk(b.begin() + size, b.end());
  model::QkSpectra out;
  const auto product = [&](const Values& x, const Values& y, size_t n) {
    return SingularValuesOf(MultiplyTransposed(x, d, y, d, n), d, d);
  };
  const size_t narrow = std::min(d, r);
  *out.mutable_delta2() = spectrum(product(a, b, 2 * r), m.product(), std::min(d, 2 * r));
  *out.mutable_delta3() = spectrum(product(dq, dk, r), m.delta_q + m.delta_k, narrow);
  *out.mutable_qk() = spectrum(product(q, k, r), m.q + m.k, narrow);
  *out.mutable_delta_q() = spectrum(SingularValuesOf(dq, d, r), m.delta_q, narrow);
  *out.mutable_delta_k() = spectrum(SingularValuesOf(dk, d, r), m.delta_k, narrow);
  return out;
}

model::Spectrum OfEigenvalues(const Eigenvalues& eigenvalues, int exponent, size_t bound,
                              double epsilon) {
  return SpectrumOfEigenvalues(eigenvalues.values, exponent, static_cast<uint32_t>(bound), epsilon,
                               eigenvalues.error);
}

// Spectra when d > 2r: from Grams where they resolve them, else from the cores.
model::QkSpectra SpectraOfTall(const Pair& a, const Pair& b, const Exponents& m,
                               const Values& gram_a, const Values& gram_b) {
  const size_t d = a.d, r = a.r, n = 2 * r;
  Cores cores(a, b);
  const auto pick = [&](const Eigenvalues& eigenvalues, int exponent, size_t bound,
                        const auto& singular_values) {
    if (WellAboveNoise(eigenvalues)) return OfEigenvalues(eigenvalues, exponent, bound, kEpsilon);
    return SpectrumOfSingularValues(singular_values(), exponent, static_cast<uint32_t>(bound),
                                    static_cast<uint32_t>(d));
  };
  const auto first = [&](const Values& gram) { return Block(gram, n, 0, r, 0, r); };
  const auto second = [&](const Values& gram) { return Block(gram, n, r, r, r, r); };
  // In R the first r columns have r rows, the others 2r.
  const auto r_first = [&](const Values& factor) { return Block(factor, n, 0, r, 0, r); };
  const auto r_second = [&](const Values& factor) { return Block(factor, n, 0, n, r, r); };
  model::QkSpectra out;
  *out.mutable_delta2() = pick(ProductEigenvalues(gram_a, gram_b, n), m.product(), n, [&] {
    return SingularValuesOf(MultiplyTransposed(cores.r_a(), n, cores.r_b(), n, n), n, n);
  });
  *out.mutable_delta3() =
      pick(ProductEigenvalues(first(gram_a), second(gram_b), r), m.delta_q + m.delta_k, r, [&] {
        return SingularValuesOf(
            MultiplyTransposed(r_second(cores.r_b()), n, r_first(cores.r_a()), r, r), n, r);
      });
  *out.mutable_qk() = pick(ProductEigenvalues(second(gram_a), first(gram_b), r), m.q + m.k, r, [&] {
    return SingularValuesOf(
        MultiplyTransposed(r_second(cores.r_a()), n, r_first(cores.r_b()), r, r), n, r);
  });
  *out.mutable_delta_q() = pick(EigenvaluesOf(first(gram_a), r), m.delta_q, r,
                                [&] { return SingularValuesOf(r_first(cores.r_a()), r, r); });
  *out.mutable_delta_k() = pick(EigenvaluesOf(second(gram_b), r), m.delta_k, r,
                                [&] { return SingularValuesOf(r_second(cores.r_b()), n, r); });
  return out;
}

// Powers of two by which a Gram is scaled so that its largest diagonal element is near 1; returns
// the exponent of the factor itself.
int NormaliseGram(Values* gram, size_t n) {
  double largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, (*gram)[i + i * n]);
  if (!(largest > 0)) return 0;
  int exponent = NearestExponent(largest);
  exponent -= exponent % 2;
  for (double& value : *gram) value = std::ldexp(value, -exponent);
  return exponent / 2;
}

}  // namespace

model::QkSpectra SpectraFromFactors(const QkWindow& window) {
  const size_t r = window.r, n = 2 * r;
  const Exponents e = Balance(window);
  const Pair a{window.delta_q, window.q, e.delta_q, e.q, window.d, r};
  const Pair b{window.k, window.delta_k, e.k, e.delta_k, window.d, r};
  const Values gram_a = a.Gram(), gram_b = b.Gram();
  model::QkSpectra out =
      n >= window.d ? SpectraOfNarrow(a, b, e) : SpectraOfTall(a, b, e, gram_a, gram_b);
  out.set_q_norm(BlockNorm(gram_a, n, r, r, e.q));
  out.set_k_norm(BlockNorm(gram_b, n, 0, r, e.k));
  out.set_significand_bits(window.significand_bits);
  if (out.delta2().defined()) {
    out.set_grid_ratio(
        GridRatio(gram_a, gram_b, r, e.q, e.k, out.delta2(), window.significand_bits));
  }
  return out;
}

model::QkSpectra SpectraFromGrams(const QkGrams& grams) {
  const size_t d = grams.d, r = grams.r, n = 2 * r;
  const double epsilon = grams.single_precision ? std::numeric_limits<float>::epsilon() : kEpsilon;
  Values gram_a = grams.gram_a, gram_b = grams.gram_b;
  const int scale_a = NormaliseGram(&gram_a, n);
  const int scale_b = NormaliseGram(&gram_b, n);
  const int log_a = NearestExponent(grams.a), log_q = NearestExponent(grams.q);
  // True block = block * 2^exponent.
  const int delta_q = scale_a + log_a, q = scale_a + log_q;
  const int k = scale_b - log_a, delta_k = scale_b - log_q;
  const size_t wide = std::min(d, n), narrow = std::min(d, r);
  const auto of = [&](Eigenvalues eigenvalues, int exponent, size_t bound) {
    eigenvalues.error *= epsilon / kEpsilon;
    return OfEigenvalues(eigenvalues, exponent, bound, epsilon);
  };
  const auto first = [&](const Values& gram) { return Block(gram, n, 0, r, 0, r); };
  const auto second = [&](const Values& gram) { return Block(gram, n, r, r, r, r); };
  model::QkSpectra out;
  *out.mutable_delta2() = of(ProductEigenvalues(gram_a, gram_b, n), delta_q + k, wide);
  *out.mutable_delta3() =
      of(ProductEigenvalues(first(gram_a), second(gram_b), r), delta_q + delta_k, narrow);
  *out.mutable_qk() = of(ProductEigenvalues(second(gram_a), first(gram_b), r), q + k, narrow);
  *out.mutable_delta_q() = of(EigenvaluesOf(first(gram_a), r), delta_q, narrow);
  *out.mutable_delta_k() = of(EigenvaluesOf(second(gram_b), r), delta_k, narrow);
  out.set_q_norm(BlockNorm(gram_a, n, r, r, q));
  out.set_k_norm(BlockNorm(gram_b, n, 0, r, k));
  out.set_gram32(grams.single_precision);
  out.set_significand_bits(grams.significand_bits);
  if (out.delta2().defined()) {
    out.set_grid_ratio(GridRatio(gram_a, gram_b, r, q, k, out.delta2(), grams.significand_bits));
  }
  return out;
}

}  // namespace foreshock::indicators
