// Every kernel of every instruction set that this machine can run, against the obvious version.
#include "daemon/indicators/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/reference/router_reference.h"
#include "tests/reference/spectrum_reference.h"
#include "tests/unit/indicators/harness.h"

namespace foreshock::indicators {
namespace {

class KernelsTest : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    const Kernels* sets[3];
    if (GetParam() >= KernelSets(sets)) GTEST_SKIP() << "not on this processor";
    kernels_ = sets[GetParam()];
    std::cout << "kernels " << kernels_->name << ", seed " << kSeed << "\n";
  }
  static constexpr uint64_t kSeed = 20261130;
  const Kernels* kernels_ = nullptr;
  std::mt19937_64 random_{kSeed};
};

INSTANTIATE_TEST_SUITE_P(Sets, KernelsTest, ::testing::Values(0, 1, 2));

// All 65 536 patterns, by the definition of the formats.
TEST_P(KernelsTest, DecodesEveryHalfExactly) {
  std::string bytes;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    bytes.push_back(static_cast<char>(bits));
    bytes.push_back(static_cast<char>(bits >> 8));
  }
  std::vector<double> f16(65536), bf16(65536);
  kernels_->decode_f16(bytes.data(), 65536, f16.data());
  kernels_->decode_bf16(bytes.data(), 65536, bf16.data());
  const auto value = [](uint32_t bits, int exponent_bits, int fraction_bits) {
    const uint32_t exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
    const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = (bits >> 15) != 0 ? -1 : 1;
    if (exponent == (1u << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp((1u << fraction_bits) + fraction,
                             static_cast<int>(exponent) - bias - fraction_bits);
  };
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double half = value(bits, 5, 10), brain = value(bits, 8, 7);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(f16[bits])) << bits;
    } else {
      ASSERT_EQ(f16[bits], half) << bits;
      ASSERT_EQ(std::signbit(f16[bits]), std::signbit(half)) << bits;
    }
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(bf16[bits])) << bits;
    } else {
      ASSERT_EQ(bf16[bits], brain) << bits;
    }
  }
}

TEST_P(KernelsTest, GramAndCongruenceAreTheProducts) {
  for (const auto& [d, n] : {std::pair<size_t, size_t>{1, 1}, {3, 2}, {17, 5}, {200, 33}}) {
    const std::vector<double> a = Gaussian(&random_, d * n);
    std::vector<double> gram(n * n);
    kernels_->gram(a.data(), d, n, gram.data());
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (size_t c = 0; c < d; ++c) sum += a[c + i * d] * a[c + j * d];
        ASSERT_NEAR(gram[i + j * n], sum, 1e-13 * static_cast<double>(d));
      }
    }
    // P^T G P with P = the first columns of the Gram itself.
    const size_t k = (n + 1) / 2;
    std::vector<double> work(n * k), out(k * k);
    kernels_->congruence(gram.data(), k, gram.data(), n, work.data(), out.data());
    for (size_t i = 0; i < k; ++i) {
      for (size_t j = 0; j < k; ++j) {
        double sum = 0, size = 0;
        for (size_t p = 0; p < n; ++p) {
          for (size_t q = 0; q < n; ++q) {
            const double term = gram[p + i * n] * gram[p + q * n] * gram[q + j * n];
            sum += term;
            size += std::abs(term);
          }
        }
        ASSERT_NEAR(out[i + j * k], sum, 1e-14 * size);
      }
    }
  }
}

TEST_P(KernelsTest, SingularAndEigenvaluesAgreeWithDenseSvd) {
  for (const auto& [m, n] :
       {std::pair<size_t, size_t>{1, 1}, {2, 1}, {2, 2}, {5, 5}, {9, 4}, {40, 17}, {64, 64}}) {
    for (double decay : {0.0, 0.5, 2.0}) {  // flat to steep
      std::vector<double> a = Gaussian(&random_, m * n);
      for (size_t j = 0; j < n; ++j) {
        for (size_t i = 0; i < m; ++i) a[i + j * m] *= std::exp(-decay * static_cast<double>(j));
      }
      const std::vector<double> expected = reference::SingularValues(a, m, n);
      std::vector<double> spoilt = a, values(n), work(2 * m + 8 * n);
      kernels_->singular_values(spoilt.data(), m, n, work.data(), values.data());
      for (size_t i = 0; i < n; ++i) ASSERT_NEAR(values[i], expected[i], 4e-15 * 16 * expected[0]);

      std::vector<double> gram(n * n), lambda(n), work2(5 * n);
      kernels_->gram(a.data(), m, n, gram.data());
      kernels_->symmetric_eigenvalues(gram.data(), n, work2.data(), lambda.data());
      for (size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(lambda[n - 1 - i], expected[i] * expected[i],
                    6e-14 * expected[0] * expected[0]);
      }
    }
  }
}

TEST_P(KernelsTest, EigenvaluesOfDegenerateMatrices) {
  const size_t n = 12;
  for (const double off : {0.0, 1.0}) {  // identity; all ones (n and n - 1 zeros)
    std::vector<double> a(n * n, off), values(n), work(5 * n);
    for (size_t i = 0; i < n; ++i) a[i + i * n] = 1;
    kernels_->symmetric_eigenvalues(a.data(), n, work.data(), values.data());
    for (size_t i = 0; i + 1 < n; ++i) EXPECT_NEAR(values[i], 1 - off, 1e-14);
    EXPECT_NEAR(values[n - 1], off == 0 ? 1 : 12, 1e-13);
  }
}

TEST_P(KernelsTest, QrAndCholeskyFactorsReproduceTheGram) {
  const size_t d = 50, n = 21;
  const std::vector<double> a = Gaussian(&random_, d * n);
  std::vector<double> gram(n * n), r(n * n), spoilt = a;
  kernels_->gram(a.data(), d, n, gram.data());
  kernels_->qr_factor(spoilt.data(), d, n, r.data());
  std::vector<double> l = gram;
  ASSERT_TRUE(kernels_->cholesky(l.data(), n));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double from_r = 0, from_l = 0;
      for (size_t c = 0; c < n; ++c) {
        from_r += r[c + i * n] * r[c + j * n];
        from_l += l[i + c * n] * l[j + c * n];
      }
      ASSERT_NEAR(from_r, gram[i + j * n], 1e-12);
      ASSERT_NEAR(from_l, gram[i + j * n], 1e-12);
    }
  }
}

TEST_P(KernelsTest, SemidefiniteFactorFindsTheRank) {
  const size_t n = 15;
  for (size_t rank : {0, 1, 4, 15}) {
    const std::vector<double> a = Gaussian(&random_, rank * n);  // [rank, n]
    std::vector<double> gram(n * n), factor(n * n);
    if (rank > 0) kernels_->gram(a.data(), rank, n, gram.data());
    std::vector<double> spoilt = gram;
    ASSERT_EQ(kernels_->semidefinite_factor(spoilt.data(), n, factor.data()), rank);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (size_t c = 0; c < rank; ++c) sum += factor[i + c * n] * factor[j + c * n];
        ASSERT_NEAR(sum, gram[i + j * n], 1e-12);
      }
    }
  }
}

struct GateRun {
  GateTask task;
  std::vector<double> scratch, p_sum, margins;
  std::vector<int64_t> counts;
};

void RunGates(const Kernels& kernels, const std::vector<double>& scores, size_t experts,
              GateForm form, size_t k, const std::vector<double>& bias, GateRun* run) {
  run->scratch.resize(GateScratchDoubles(experts));
  run->p_sum.assign(experts, 0);
  run->counts.assign(experts, 0);
  run->margins.assign(scores.size() / experts, 0);
  run->task.scores = scores.data();
  run->task.tokens = scores.size() / experts;
  run->task.experts = experts;
  run->task.form = form;
  run->task.top_k = k;
  run->task.bias = bias.empty() ? nullptr : bias.data();
  run->task.scratch = run->scratch.data();
  run->task.p_sum = run->p_sum.data();
  run->task.counts = run->counts.data();
  run->task.margins = run->margins.data();
  kernels.gates(&run->task);
}

TEST_P(KernelsTest, GatesAgreeWithTheObviousVersion) {
  using reference::Gate;
  const std::pair<GateForm, reference::Gate> forms[] = {
      {GateForm::kSoftmaxLogits, reference::Gate::kSoftmaxLogits},
      {GateForm::kSigmoidLogits, reference::Gate::kSigmoidLogits},
      {GateForm::kSoftmax, reference::Gate::kSoftmax},
      {GateForm::kSigmoid, reference::Gate::kSigmoid}};
  for (const auto& [form, gate] : forms) {
    for (size_t experts : {2, 3, 8, 15, 16, 17, 64, 160, 257, 300}) {
      for (bool biased : {false, true}) {
        SCOPED_TRACE(absl::StrCat("form ", static_cast<int>(form), ", experts ", experts,
                                  ", biased ", biased));
        const size_t k = std::min<size_t>(experts - 1, experts % 2 == 0 ? 8 : 40), tokens = 20;
        std::vector<double> scores = Gaussian(&random_, tokens * experts, 3);
        if (form == GateForm::kSoftmax || form == GateForm::kSigmoid) {
          for (double& score : scores) score = std::exp(score - 9);
          scores[0] = 0;
        }
        const std::vector<double> bias =
            biased ? Gaussian(&random_, experts, 0.05) : std::vector<double>{};
        GateRun run;
        RunGates(*kernels_, scores, experts, form, k, bias, &run);
        const reference::GateStatistics expected = reference::Gates(scores, experts, gate, k, bias);
        const double n = static_cast<double>(tokens);
        EXPECT_EQ(run.task.accepted, tokens);
        EXPECT_THAT(run.task.entropy_sum / n, Near(expected.token_entropy));
        EXPECT_THAT(run.task.entropy_min, Near(expected.token_entropy_min));
        EXPECT_THAT(run.task.top_k_mass_sum / n, Near(expected.top_k_mass));
        EXPECT_EQ(run.counts, expected.counts);
        for (size_t t = 0; t < tokens; ++t) {
          EXPECT_NEAR(run.margins[t], expected.margins[t], 1e-14);
        }
        if (form == GateForm::kSoftmaxLogits || form == GateForm::kSigmoidLogits) {
          EXPECT_THAT(run.task.z_sum / n, Near(expected.z));
          EXPECT_THAT(run.task.logit_absmax, expected.logit_absmax);
        }
        if (biased) {
          EXPECT_THAT(run.task.overlap_sum / n, Near(expected.bias_overlap));
        }
      }
    }
  }
}

// H = ln(1 + s) + ... keeps its relative accuracy where the plain sum has cancelled to nothing.
TEST_P(KernelsTest, EntropyNextToOneHotRowsKeepsItsRelativeAccuracy) {
  for (double gap : {1.0, 20.0, 40.0, 200.0, 690.0}) {
    GateRun run;
    RunGates(*kernels_, {0, -gap, -gap}, 3, GateForm::kSoftmaxLogits, 1, {}, &run);
    const double s = 2 * std::exp(-gap);
    EXPECT_THAT(run.task.entropy_sum, Near(std::log1p(s) + gap * s / (1 + s)));
  }
}

TEST_P(KernelsTest, TiesGoToTheLowestIndex) {
  GateRun run;
  RunGates(*kernels_, std::vector<double>(40, 0.5), 40, GateForm::kSoftmaxLogits, 3, {}, &run);
  for (size_t e = 0; e < 40; ++e) EXPECT_EQ(run.counts[e], e < 3 ? 1 : 0) << e;
  EXPECT_EQ(run.margins[0], 0);
}

// Coarse scores, as of BF16: equal ones inside the selection and at its edge.
TEST_P(KernelsTest, SelectionWithManyTiesAgreesWithTheObviousVersion) {
  for (size_t experts : {20, 64, 256}) {
    std::vector<double> scores = Gaussian(&random_, 50 * experts, 2);
    for (double& score : scores) score = std::round(4 * score) / 4;
    GateRun run;
    RunGates(*kernels_, scores, experts, GateForm::kSoftmaxLogits, 8, {}, &run);
    const reference::GateStatistics expected =
        reference::Gates(scores, experts, reference::Gate::kSoftmaxLogits, 8, {});
    EXPECT_EQ(run.counts, expected.counts) << experts;
    EXPECT_THAT(run.task.top_k_mass_sum / 50, Near(expected.top_k_mass));
  }
}

TEST_P(KernelsTest, RowsThatAreNoDistributionAreRejected) {
  GateRun run;
  RunGates(*kernels_, {0, 0, 0.5, -0.1, 1, 3}, 2, GateForm::kSigmoid, 1, {}, &run);
  EXPECT_EQ(run.task.accepted, 1u);
  EXPECT_EQ(run.task.rejected, 2u);
  EXPECT_EQ(run.counts, (std::vector<int64_t>{0, 1}));
}

TEST_P(KernelsTest, ExtremeLogitsDoNotOverflow) {
  GateRun run;
  RunGates(*kernels_, {1e6, -1e6, 0, 1e6}, 4, GateForm::kSoftmaxLogits, 1, {}, &run);
  EXPECT_THAT(run.task.entropy_sum, Near(std::log(2.0)));
  GateRun sigmoid;
  RunGates(*kernels_, {800, -800}, 2, GateForm::kSigmoidLogits, 1, {}, &sigmoid);
  EXPECT_EQ(sigmoid.task.accepted, 1u);
  EXPECT_NEAR(sigmoid.p_sum[0], 1, 1e-15);
}

}  // namespace
}  // namespace foreshock::indicators
