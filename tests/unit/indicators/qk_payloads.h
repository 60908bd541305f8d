// QkFactors and QkGram payloads of one head from its matrices.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "foreshock/v1/ingest.pb.h"
#include "tests/reference/spectrum_reference.h"
#include "tests/unit/indicators/harness.h"

namespace foreshock::indicators {

// x + factor * y
inline std::vector<double> Sum(std::vector<double> x, const std::vector<double>& y,
                               double factor = 1) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
  return x;
}

inline double FrobeniusNorm(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

// i.i.d. Gaussian weights and changes; |change| = update * |weight|.
inline reference::Head RandomHead(std::mt19937_64* random, size_t d, size_t r, double update) {
  reference::Head head{d,
                       r,
                       Gaussian(random, d * r),
                       Gaussian(random, d * r),
                       Gaussian(random, d * r),
                       Gaussian(random, d * r)};
  const double q = update * FrobeniusNorm(head.q) / FrobeniusNorm(head.delta_q);
  const double k = update * FrobeniusNorm(head.k) / FrobeniusNorm(head.delta_k);
  for (double& value : head.delta_q) value *= q;
  for (double& value : head.delta_k) value *= k;
  return head;
}

// Head 0 of layer 0, F64; q and k are [d, r] by columns = [r, d] by rows.
inline v1::Summary FactorsOf(const std::vector<double>& q, const std::vector<double>& k, size_t d,
                             size_t r) {
  v1::Summary summary;
  v1::QkFactors* factors = summary.mutable_qk_factors();
  factors->add_heads(0);
  const std::vector<uint32_t> shape = {1, static_cast<uint32_t>(r), static_cast<uint32_t>(d)};
  *factors->mutable_q()->mutable_dense() = F64Tensor(shape, q);
  *factors->mutable_k()->mutable_dense() = F64Tensor(shape, k);
  return summary;
}

inline double PowerOfTwoNear(double x) { return std::exp2(std::round(std::log2(x))); }

// Balanced Grams of rows [begin, begin + count) as head 5 of layer 2, base step 100, window 50. Its
// own scales, as a shard would choose them.
inline v1::Summary GramOf(const reference::Head& head, size_t begin, size_t count,
                          bool single_precision = false) {
  const size_t d = head.d, r = head.r, n = 2 * r;
  const auto rows = [&](const std::vector<double>& m) {
    std::vector<double> part;
    for (size_t c = 0; c < r; ++c) {
      for (size_t i = begin; i < begin + count; ++i) part.push_back(m[i + c * d]);
    }
    return part;
  };
  std::vector<double> dq = rows(head.delta_q), q = rows(head.q);
  std::vector<double> k = rows(head.k), dk = rows(head.delta_k);
  const double q_scale = PowerOfTwoNear(FrobeniusNorm(q));
  const double a_scale = PowerOfTwoNear(
      FrobeniusNorm(dq) > 0 ? FrobeniusNorm(dq) : q_scale * FrobeniusNorm(dk) / FrobeniusNorm(k));
  std::vector<double> a, b;
  for (double x : dq) a.push_back(x / a_scale);
  for (double x : q) a.push_back(x / q_scale);
  for (double x : k) b.push_back(x * a_scale);
  for (double x : dk) b.push_back(x * q_scale);
  const auto packed = [&](const std::vector<double>& m) {
    std::vector<double> triangle;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (size_t c = 0; c < count; ++c) sum += m[c + i * count] * m[c + j * count];
        triangle.push_back(sum);
      }
    }
    return triangle;
  };
  v1::Summary summary;
  v1::QkGram* gram = summary.mutable_qk_gram();
  gram->set_layer(2);
  gram->add_heads(5);
  gram->set_head_dim(static_cast<uint32_t>(r));
  gram->mutable_rows()->set_begin(static_cast<uint32_t>(begin));
  gram->mutable_rows()->set_count(static_cast<uint32_t>(count));
  gram->mutable_rows()->set_total(static_cast<uint32_t>(d));
  gram->set_window_steps(50);
  gram->set_base_step(100);
  gram->add_a(a_scale);
  gram->add_q(q_scale);
  const std::vector<uint32_t> shape = {1, static_cast<uint32_t>(r * (n + 1))};
  *gram->mutable_gram_a() =
      single_precision ? F32Tensor(shape, packed(a)) : F64Tensor(shape, packed(a));
  *gram->mutable_gram_b() =
      single_precision ? F32Tensor(shape, packed(b)) : F64Tensor(shape, packed(b));
  return summary;
}

}  // namespace foreshock::indicators
