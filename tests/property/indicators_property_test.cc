// Identities and ranges that hold for every input: random shapes, scales and degenerate cases.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "daemon/indicators/grid_gate.h"
#include "daemon/indicators/qk_gram_sum.h"
#include "daemon/indicators/qk_spectra.h"
#include "daemon/indicators/spectrum.h"
#include "tests/reference/spectrum_reference.h"
#include "tests/unit/indicators/harness.h"
#include "tests/unit/indicators/qk_payloads.h"

namespace foreshock::property {
namespace {

using indicators::F64Tensor;
using indicators::FrobeniusNorm;
using indicators::Gaussian;
using indicators::GramOf;
using indicators::I64Tensor;
using indicators::Near;
using indicators::Near9;
using indicators::RandomHead;
using indicators::Rank;
using indicators::Samples;
using indicators::Sum;
using reference::Head;

// FORESHOCK_SEED=n repeats a run.
uint64_t Seed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("FORESHOCK_SEED");
    const uint64_t chosen = given != nullptr ? std::stoull(given) : std::random_device{}();
    std::cout << "FORESHOCK_SEED=" << chosen << "\n";
    return chosen;
  }();
  return seed;
}

class IndicatorProperties : public ::testing::Test {
 protected:
  size_t Between(size_t least, size_t most) {
    return std::uniform_int_distribution<size_t>(least, most)(random_);
  }
  // Heads of all kinds: flat or steep, low-rank or zero changes, tall or narrow.
  Head AnyHead() {
    // At d = r = 1 equal relative changes cancel to rounding noise, which no two sums share.
    const size_t d = Between(1, 60), r = Between(d == 1 ? 2 : 1, 12);
    Head head = RandomHead(&random_, d, r, std::pow(10.0, -static_cast<double>(Between(0, 6))));
    const auto decay = static_cast<double>(Between(0, 2));
    for (std::vector<double>* m : {&head.q, &head.k, &head.delta_q, &head.delta_k}) {
      const bool low_rank = Between(0, 3) == 0, zero = Between(0, 9) == 0;
      for (size_t c = 0; c < r; ++c) {
        for (size_t i = 0; i < d; ++i) {
          double& x = (*m)[i + c * d];
          if (low_rank) x = (*m)[i] * static_cast<double>(c % 3 + 1);
          if (zero) x = 0;
          x *= std::exp(-decay * static_cast<double>(c));
        }
      }
    }
    return head;
  }
  static model::QkSpectra Spectra(const Head& head) {
    return indicators::SpectraFromFactors({.q = head.q.data(),
                                           .k = head.k.data(),
                                           .delta_q = head.delta_q.data(),
                                           .delta_k = head.delta_k.data(),
                                           .d = static_cast<uint32_t>(head.d),
                                           .r = static_cast<uint32_t>(head.r)});
  }
  std::mt19937_64 random_{Seed()};
};

void ExpectRanges(const model::Spectrum& s) {
  if (!s.defined()) return;
  const double m = s.rank_bound(), slack = 1 + 1e-12;
  const double rank = indicators::EffectiveRank(s.entropy(), s.rank_bound());
  const double rank_l1 = indicators::EffectiveRank(s.entropy_l1(), s.rank_bound());
  EXPECT_GE(s.stable_rank(), 1);
  EXPECT_LE(s.stable_rank(), rank * slack);
  EXPECT_LE(rank, m);
  EXPECT_LE(rank_l1, m);
  EXPECT_LE(rank, rank_l1 * slack);  // squaring concentrates
  EXPECT_GE(s.entropy(), 0);
  EXPECT_LE(s.entropy(), std::log(m) * slack);
  EXPECT_GT(s.norm(), 0);
}

TEST_F(IndicatorProperties, SpectraStayInTheirRangesAndAgreeWithTheDenseSvd) {
  for (int round = 0; round < 150; ++round) {
    const Head head = AnyHead();
    SCOPED_TRACE(absl::StrCat("round ", round, ", d ", head.d, ", r ", head.r));
    const model::QkSpectra found = Spectra(head);
    const reference::QkSpectra expected = reference::SpectraOf(head, 24);
    const std::pair<const model::Spectrum*, const reference::Spectrum*> pairs[] = {
        {&found.delta2(), &expected.delta2},
        {&found.delta3(), &expected.delta3},
        {&found.delta_q(), &expected.delta_q},
        {&found.delta_k(), &expected.delta_k},
        {&found.qk(), &expected.qk}};
    for (const auto& [spectrum, dense] : pairs) {
      ExpectRanges(*spectrum);
      ASSERT_EQ(spectrum->defined(), dense->defined);
      if (!dense->defined) continue;
      // Against a dense SVD with its own noise, whose cut at eps * d falls elsewhere: absolute.
      EXPECT_NEAR(spectrum->entropy(), dense->entropy, 1e-9);
      EXPECT_NEAR(spectrum->entropy_l1(), dense->entropy_l1, 1e-9);
      EXPECT_THAT(spectrum->norm(), Near(dense->norm));
    }
  }
}

TEST_F(IndicatorProperties, SpectraDoNotDependOnScale) {
  for (double scale : {1e-200, 1e-20, 3.0, 1e20, 1e200}) {
    Head head = RandomHead(&random_, Between(20, 40), Between(2, 8), 1e-2);
    const model::QkSpectra before = Spectra(head);
    for (double& x : head.q) x *= scale;
    for (double& x : head.delta_q) x *= scale;
    for (double& x : head.k) x /= scale;
    for (double& x : head.delta_k) x /= scale;
    const model::QkSpectra after = Spectra(head);
    EXPECT_THAT(after.delta2().entropy(), Near(before.delta2().entropy())) << scale;
    EXPECT_THAT(after.delta2().entropy_l1(), Near(before.delta2().entropy_l1())) << scale;
    EXPECT_THAT(after.delta2().norm(), Near(before.delta2().norm())) << scale;
    EXPECT_THAT(after.delta3().stable_rank(), Near(before.delta3().stable_rank())) << scale;
    EXPECT_THAT(after.delta_q().norm(), Near(scale * before.delta_q().norm())) << scale;
    EXPECT_THAT(after.grid_ratio(), Near(before.grid_ratio())) << scale;
  }
}

// Reflections on either side of d, and a rotation of the r axes that Q and K share.
TEST_F(IndicatorProperties, SpectraDoNotDependOnOrthogonalMaps) {
  for (int round = 0; round < 20; ++round) {
    const size_t d = Between(5, 50), r = Between(2, 8);
    Head head = RandomHead(&random_, d, r, 0.1);
    const model::QkSpectra before = Spectra(head);
    const auto reflect_rows = [&](std::vector<double>* m, const std::vector<double>& v) {
      const double norm = FrobeniusNorm(v);
      for (size_t c = 0; c < r; ++c) {
        double dot = 0;
        for (size_t i = 0; i < d; ++i) dot += v[i] * (*m)[i + c * d];
        for (size_t i = 0; i < d; ++i) (*m)[i + c * d] -= 2 * dot * v[i] / (norm * norm);
      }
    };
    const std::vector<double> u = Gaussian(&random_, d), v = Gaussian(&random_, d);
    for (auto* m : {&head.q, &head.delta_q}) reflect_rows(m, u);
    for (auto* m : {&head.k, &head.delta_k}) reflect_rows(m, v);
    for (auto* m : {&head.q, &head.delta_q, &head.k, &head.delta_k}) {
      for (size_t i = 0; i < d; ++i) {
        const double x = (*m)[i], y = (*m)[i + d];
        (*m)[i] = 0.6 * x - 0.8 * y;
        (*m)[i + d] = 0.8 * x + 0.6 * y;
      }
    }
    const model::QkSpectra after = Spectra(head);
    EXPECT_THAT(after.delta2().entropy(), Near(before.delta2().entropy()));
    EXPECT_THAT(after.delta2().entropy_l1(), Near(before.delta2().entropy_l1()));
    EXPECT_THAT(after.delta3().entropy(), Near(before.delta3().entropy()));
    EXPECT_THAT(after.qk().stable_rank(), Near(before.qk().stable_rank()));
  }
}

TEST_F(IndicatorProperties, TheChangeOfTheOperatorIsFirstPlusSecondOrder) {
  const Head h = RandomHead(&random_, 30, 4, 0.3);
  const std::vector<double> now =
      reference::OuterProduct(Sum(h.q, h.delta_q), Sum(h.k, h.delta_k), h.d, h.r);
  const std::vector<double> change = Sum(now, reference::OuterProduct(h.q, h.k, h.d, h.r), -1);
  std::vector<double> orders = reference::OuterProduct(h.delta_q, h.k, h.d, h.r);
  orders = Sum(orders, reference::OuterProduct(h.q, h.delta_k, h.d, h.r));
  orders = Sum(orders, reference::OuterProduct(h.delta_q, h.delta_k, h.d, h.r));
  EXPECT_LT(FrobeniusNorm(Sum(change, orders, -1)), 3e-15 * FrobeniusNorm(now));
}

TEST_F(IndicatorProperties, EqualSingularValuesAreCounted) {
  for (size_t k : {1, 3, 8}) {
    Head head{20,
              8,
              Gaussian(&random_, 160),
              std::vector<double>(160),
              std::vector<double>(160),
              std::vector<double>(160)};
    for (size_t c = 0; c < k; ++c) head.delta_q[c + c * 20] = -3;
    const model::Spectrum s = Spectra(head).delta_q();
    EXPECT_THAT(s.stable_rank(), Near(static_cast<double>(k)));
    EXPECT_THAT(indicators::EffectiveRank(s.entropy(), 8), Near(static_cast<double>(k)));
    EXPECT_THAT(indicators::EffectiveRank(s.entropy_l1(), 8), Near(static_cast<double>(k)));
  }
  // dK = 0, dQ and K orthonormal: Delta2 = dQ K^T has r equal singular values.
  const size_t d = 40, r = 6;
  Head head{d,
            r,
            Gaussian(&random_, d * r),
            std::vector<double>(d * r),
            std::vector<double>(d * r),
            std::vector<double>(d * r)};
  for (size_t c = 0; c < r; ++c) head.delta_q[2 * c + c * d] = head.k[c + 7 + c * d] = 1;
  EXPECT_THAT(indicators::EffectiveRank(Spectra(head).delta2().entropy(), 12), Near(6));
}

TEST_F(IndicatorProperties, GramsOfRowShardsAddWhateverTheirScales) {
  for (int round = 0; round < 10; ++round) {
    const size_t d = Between(30, 60), r = Between(2, 6), n = 2 * r;
    Head head = RandomHead(&random_, d, r, 1e-3);
    for (size_t i = 0; i < d / 3; ++i) {  // rows of very different size: other scales per shard
      for (size_t c = 0; c < r; ++c) head.q[i + c * d] *= 1e3;
    }
    Rank rank;
    model::QkGramSum sum;
    size_t begin = 0;
    while (begin < d) {
      const size_t count = std::min(d - begin, Between(1, d / 2));
      ASSERT_OK(rank.Send(GramOf(head, begin, count), 150));
      const model::QkGramSum& part = rank.shards().qk(0).partial();
      if (begin == 0) {
        sum = part;
      } else {
        for (int i = 0; i < part.gram_a_size(); ++i) {
          sum.set_gram_a(i, sum.gram_a(i) + part.gram_a(i));
          sum.set_gram_b(i, sum.gram_b(i) + part.gram_b(i));
        }
      }
      rank.shards().Clear();
      begin += count;
    }
    ASSERT_EQ(static_cast<size_t>(sum.gram_a_size()), n * (n + 1) / 2);
    const model::QkSpectra joined = indicators::SpectraFromGrams(indicators::Rebalanced(sum));
    const reference::QkSpectra expected = reference::SpectraOf(head, 24);
    EXPECT_THAT(joined.delta2().entropy(), Near(expected.delta2.entropy));
    EXPECT_THAT(joined.delta3().entropy(), Near(expected.delta3.entropy));
    EXPECT_THAT(joined.delta2().norm(), Near(expected.delta2.norm));
    EXPECT_THAT(joined.delta2().entropy_l1(), Near9(expected.delta2.entropy_l1, 1e-6));
  }
}

// Q(t)^T Q(t) of one window is Q^T Q of the next.
TEST_F(IndicatorProperties, WindowsJoinUp) {
  const size_t d = 40, r = 5, n = 2 * r;
  const Head first = RandomHead(&random_, d, r, 0.05);
  Head second = RandomHead(&random_, d, r, 0.05);
  second.q = Sum(first.q, first.delta_q);
  const auto grams = [&](const Head& head) {
    const v1::QkGram payload = GramOf(head, 0, d).qk_gram();
    indicators::QkGrams grams;
    std::vector<double> packed(n * (n + 1) / 2);
    std::memcpy(packed.data(), payload.gram_a().data().data(), 8 * packed.size());
    grams.gram_a.resize(n * n);
    for (size_t i = 0, at = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j)
        grams.gram_a[i + j * n] = grams.gram_a[j + i * n] = packed[at++];
    }
    grams.gram_b.assign(n * n, 0);
    grams.a = payload.a(0);
    grams.q = payload.q(0);
    grams.d = d;
    grams.r = r;
    return indicators::UnscaledSum(grams, d);
  };
  const model::QkGramSum one = grams(first), two = grams(second);
  const auto at = [&](const model::QkGramSum& sum, size_t i, size_t j) {
    const size_t row = std::max(i, j), column = std::min(i, j);
    return sum.gram_a(static_cast<int>(row * (row + 1) / 2 + column));
  };
  for (size_t i = 0; i < r; ++i) {
    for (size_t j = 0; j < r; ++j) {
      const double end =
          at(one, i, j) + at(one, i, r + j) + at(one, r + i, j) + at(one, r + i, r + j);
      EXPECT_NEAR(end, at(two, r + i, r + j), 1e-12 * static_cast<double>(d));
    }
  }
}

TEST_F(IndicatorProperties, SimilarityIsTheNormOfTheMeanDirection) {
  for (int round = 0; round < 30; ++round) {
    const size_t experts = Between(2, 20), d = Between(1, 40);
    const std::vector<double> weights = Gaussian(&random_, experts * d);
    std::vector<double> mean(d);
    for (size_t e = 0; e < experts; ++e) {
      const std::vector<double> row(weights.begin() + static_cast<std::ptrdiff_t>(e * d),
                                    weights.begin() + static_cast<std::ptrdiff_t>((e + 1) * d));
      const double norm = FrobeniusNorm(row);
      for (size_t c = 0; c < d; ++c) mean[c] += row[c] / norm / static_cast<double>(experts);
    }
    const double n = static_cast<double>(experts), m = FrobeniusNorm(mean);
    v1::Summary summary;
    *summary.mutable_router_weights()->mutable_weights() =
        F64Tensor({static_cast<uint32_t>(experts), static_cast<uint32_t>(d)}, weights);
    Rank rank;
    const double similarity = rank.SendAndClose(summary, 0)("router.weight_similarity");
    EXPECT_NEAR(similarity, (n * m * m - 1) / (n - 1), 1e-13 * n);
    EXPECT_GE(similarity, -1 / (n - 1));
    EXPECT_LE(similarity, 1);
  }
}

TEST_F(IndicatorProperties, LoadStaysInItsRanges) {
  for (int round = 0; round < 100; ++round) {
    const size_t experts = Between(2, 64), k = Between(1, experts), tokens = Between(1, 100);
    std::vector<int64_t> counts(experts);
    std::vector<size_t> order(experts);
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t favoured = Between(k, experts);  // only some experts are ever chosen
    for (size_t t = 0; t < tokens; ++t) {
      std::shuffle(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(favoured), random_);
      for (size_t i = 0; i < k; ++i) ++counts[order[i]];
    }
    v1::Summary summary;
    *summary.mutable_router_load()->mutable_counts() =
        I64Tensor({static_cast<uint32_t>(experts)}, counts);
    Rank rank;
    rank.model().set_top_k(static_cast<uint32_t>(k));
    const Samples s = rank.SendAndClose(summary, 0);
    const double e = static_cast<double>(experts), kk = static_cast<double>(k), eps = 1e-12;
    EXPECT_GE(s("load.max_violation"), -eps);
    EXPECT_LE(s("load.max_violation"), e / kk - 1 + eps);
    if (k < experts) {
      EXPECT_LE(s("load.max_violation_ratio"), 1 + eps);
    }
    EXPECT_GE(s("load.min_violation"), -1);
    EXPECT_LE(s("load.min_violation"), eps);
    EXPECT_LE(s("load.mean_violation"), 2 * (1 - kk / e) + eps);
    EXPECT_LE(s("load.cv"), std::sqrt(std::max(e / kk - 1, 0.0)) + 1e-7);
    EXPECT_GE(s("load.entropy"), std::log(kk) - eps);
    EXPECT_LE(s("load.entropy"), std::log(e) + eps);
    EXPECT_GE(s("load.effective_experts"), kk - 1e-9);
    double shares = 0;
    for (size_t i = 0; i < experts; ++i) shares += s("load.share", static_cast<int64_t>(i));
    EXPECT_NEAR(shares, e, 1e-9);
  }
}

TEST_F(IndicatorProperties, GatesStayInTheirRangesAndAddOverTokens) {
  for (int round = 0; round < 60; ++round) {
    const size_t experts = Between(2, 70), k = Between(1, experts), tokens = Between(2, 60);
    const std::vector<double> scores =
        Gaussian(&random_, tokens * experts, std::pow(10.0, static_cast<double>(Between(0, 2))));
    const auto payload = [&](size_t begin, size_t end) {
      v1::Summary summary;
      v1::RouterGates* gates = summary.mutable_router_gates();
      *gates->mutable_scores() =
          F64Tensor({static_cast<uint32_t>(end - begin), static_cast<uint32_t>(experts)},
                    {scores.begin() + static_cast<std::ptrdiff_t>(begin * experts),
                     scores.begin() + static_cast<std::ptrdiff_t>(end * experts)});
      gates->set_score_kind(v1::SCORE_KIND_SOFTMAX_LOGITS);
      gates->set_top_k(static_cast<uint32_t>(k));
      return summary;
    };
    Rank rank;
    const Samples s = rank.SendAndClose(payload(0, tokens), 0);
    const double e = static_cast<double>(experts), kk = static_cast<double>(k);
    EXPECT_GE(s("router.token_entropy_min"), 0);
    EXPECT_LE(s("router.token_entropy_min"), s("router.token_entropy") * (1 + 1e-12));
    EXPECT_LE(s("router.token_entropy_ratio"), 1 + 1e-12);
    EXPECT_GE(s("router.mutual_information"), 0);
    EXPECT_LE(s("router.mutual_information"), 1);
    EXPECT_GE(s("router.top_k_mass"), kk / e - 1e-12);
    EXPECT_LE(s("router.top_k_mass"), 1 + 1e-12);
    if (k < experts) {
      EXPECT_GE(s("router.margin_p10"), s("router.margin_min"));
      EXPECT_LE(s("router.margin_min"), s("router.margin_mean") * (1 + 1e-12));
    }
    // Two shards and the whole: sums add.
    const size_t cut = Between(1, tokens - 1);
    ASSERT_OK(rank.Send(payload(0, tokens), 0));
    ASSERT_OK(rank.Send(payload(0, cut), 0));
    ASSERT_OK(rank.Send(payload(cut, tokens), 0));
    const auto& shards = rank.shards().gates();
    EXPECT_EQ(shards[1].tokens() + shards[2].tokens(), tokens);
    EXPECT_NEAR(shards[1].entropy_sum() + shards[2].entropy_sum(), shards[0].entropy_sum(),
                1e-12 * static_cast<double>(tokens));
    EXPECT_EQ(std::min(shards[1].entropy_min(), shards[2].entropy_min()), shards[0].entropy_min());
    for (int i = 0; i < shards[0].counts_size(); ++i) {
      EXPECT_EQ(shards[1].counts(i) + shards[2].counts(i), shards[0].counts(i));
    }
  }
}

TEST_F(IndicatorProperties, EffectiveSampleSizeAndChiSquareFollowFromTheRatio) {
  for (int round = 0; round < 30; ++round) {
    const size_t n = Between(2, 400);
    std::vector<double> rollout = Gaussian(&random_, n), trainer = rollout;
    for (size_t i = 0; i < n; ++i) {
      rollout[i] = -std::abs(rollout[i]) - 1;
      trainer[i] = std::min(0.0, rollout[i] + 0.3 * Gaussian(&random_, 1)[0]);
    }
    v1::Summary summary;
    const auto shape = static_cast<uint32_t>(n);
    *summary.mutable_policy_mismatch()->mutable_trainer_logprobs() = F64Tensor({shape}, trainer);
    *summary.mutable_policy_mismatch()->mutable_rollout_logprobs() = F64Tensor({shape}, rollout);
    Rank rank;
    const Samples s = rank.SendAndClose(summary, 0);
    const double mean = s("rl.ratio_mean"), std = s("rl.ratio_std");
    EXPECT_THAT(s("rl.ess"), Near(1 / (1 + std * std / (mean * mean))));
    EXPECT_NEAR(s("rl.chi2"), std * std + mean * mean - 1, 1e-12 * (1 + mean * mean));
    EXPECT_GE(s("rl.k3"), 0);
    EXPECT_GE(s("rl.abs_log_ratio"), std::abs(s("rl.k1")) * (1 - 1e-12));
    EXPECT_LE(std::abs(s("rl.pearson")), 1);
  }
}

}  // namespace
}  // namespace foreshock::property
