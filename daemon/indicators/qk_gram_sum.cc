#include "daemon/indicators/qk_gram_sum.h"

#include <cmath>
#include <vector>

#include "daemon/indicators/packed.h"

namespace foreshock::indicators {
namespace {

// Multiplies the first r rows and columns of a 2r x 2r matrix by `first`, the others by `second`.
void ScaleBlocks(double first, double second, size_t r, std::vector<double>* gram) {
  const size_t n = 2 * r;
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < n; ++i) {
      (*gram)[i + j * n] *= (i < r ? first : second);
      (*gram)[i + j * n] *= (j < r ? first : second);
    }
  }
}

double TraceOf(const std::vector<double>& gram, size_t n, size_t begin, size_t count) {
  double trace = 0;
  for (size_t i = begin; i < begin + count; ++i) trace += gram[i + i * n];
  return trace;
}

// Power of two near `x` > 0, or 1.
double PowerNear(double x) {
  if (!(x > 0) || !std::isfinite(x)) return 1;
  return std::exp2(std::round(std::log2(x)));
}

}  // namespace

model::QkGramSum UnscaledSum(const QkGrams& grams, uint32_t rows_covered) {
  const size_t n = 2 * size_t{grams.r};
  model::QkGramSum sum;
  sum.set_head_dim(grams.r);
  sum.set_rows_total(grams.d);
  sum.set_rows_covered(rows_covered);
  sum.set_significand_bits(grams.significand_bits);
  sum.set_gram32(grams.single_precision);
  std::vector<double> a = grams.gram_a, b = grams.gram_b;
  ScaleBlocks(grams.a, grams.q, grams.r, &a);
  ScaleBlocks(1 / grams.a, 1 / grams.q, grams.r, &b);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      sum.add_gram_a(a[i + j * n]);
      sum.add_gram_b(b[i + j * n]);
    }
  }
  return sum;
}

QkGrams Rebalanced(const model::QkGramSum& sum) {
  const size_t r = sum.head_dim(), n = 2 * r;
  QkGrams grams;
  grams.gram_a = Unpack(sum.gram_a(), n);
  grams.gram_b = Unpack(sum.gram_b(), n);
  grams.d = sum.rows_total();
  grams.r = sum.head_dim();
  grams.significand_bits = sum.significand_bits();
  grams.single_precision = sum.gram32();
  const double delta_q = std::sqrt(TraceOf(grams.gram_a, n, 0, r));
  const double q = std::sqrt(TraceOf(grams.gram_a, n, r, r));
  const double k = std::sqrt(TraceOf(grams.gram_b, n, 0, r));
  const double delta_k = std::sqrt(TraceOf(grams.gram_b, n, r, r));
  grams.q = PowerNear(q);
  grams.a = PowerNear(delta_q > 0 ? delta_q : q * delta_k / k);
  ScaleBlocks(1 / grams.a, 1 / grams.q, r, &grams.gram_a);
  ScaleBlocks(grams.a, grams.q, r, &grams.gram_b);
  return grams;
}

}  // namespace foreshock::indicators
