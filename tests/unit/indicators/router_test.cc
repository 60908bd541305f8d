// RouterGates, RouterLoad, RouterWeights, RouterCoactivation.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "daemon/indicators/log_sketch.h"
#include "tests/reference/router_reference.h"
#include "tests/unit/indicators/harness.h"

namespace foreshock::indicators {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRouterSeed = 5;

v1::Summary Gates(const std::vector<double>& scores, uint32_t experts, v1::ScoreKind kind,
                  uint32_t k = 0) {
  v1::Summary summary;
  v1::RouterGates* gates = summary.mutable_router_gates();
  const auto tokens = static_cast<uint32_t>(scores.size() / experts);
  *gates->mutable_scores() = F64Tensor({tokens, experts}, scores);
  gates->set_score_kind(kind);
  gates->set_top_k(k);
  return summary;
}

v1::Summary Load(const std::vector<int64_t>& counts, uint32_t offset = 0) {
  v1::Summary summary;
  v1::RouterLoad* load = summary.mutable_router_load();
  load->set_expert_offset(offset);
  *load->mutable_counts() = I64Tensor({static_cast<uint32_t>(counts.size())}, counts);
  return summary;
}

v1::Summary Weights(const std::vector<double>& weights, uint32_t experts) {
  v1::Summary summary;
  *summary.mutable_router_weights()->mutable_weights() =
      F64Tensor({experts, static_cast<uint32_t>(weights.size() / experts)}, weights);
  return summary;
}

TEST(RouterGates, AllIndicatorsAgreeWithTheObviousVersion) {
  std::cout << "seed " << kRouterSeed << "\n";
  std::mt19937_64 random(kRouterSeed);
  const uint32_t experts = 32, k = 4;
  const std::vector<double> scores = Gaussian(&random, 300 * experts, 2);
  const std::vector<double> bias = Gaussian(&random, experts, 0.02);
  v1::Summary summary = Gates(scores, experts, v1::SCORE_KIND_SOFTMAX_LOGITS, k);
  *summary.mutable_router_gates()->mutable_correction_bias() = F64Tensor({experts}, bias);
  Rank rank;
  const Samples samples = rank.SendAndClose(summary, 7);
  const reference::GateStatistics expected =
      reference::Gates(scores, experts, reference::Gate::kSoftmaxLogits, k, bias);
  EXPECT_THAT(samples("router.token_entropy"), Near(expected.token_entropy));
  EXPECT_THAT(samples("router.token_entropy_min"), Near(expected.token_entropy_min));
  EXPECT_THAT(samples("router.token_entropy_std"), Near(expected.token_entropy_std));
  EXPECT_THAT(samples("router.token_entropy_ratio"),
              Near(expected.token_entropy / std::log(experts)));
  EXPECT_THAT(samples("router.mutual_information"), Near(expected.mutual_information));
  EXPECT_EQ(samples.Flags("router.mutual_information"), 0u);
  EXPECT_THAT(samples("router.top_k_mass"), Near(expected.top_k_mass));
  EXPECT_THAT(samples("router.z"), Near(expected.z));
  EXPECT_THAT(samples("router.logit_mean"), Near(expected.logit_mean));
  EXPECT_THAT(samples("router.logit_std"), Near(expected.logit_std));
  EXPECT_THAT(samples("router.logit_absmax"), Near(expected.logit_absmax));
  EXPECT_THAT(samples("router.bias_overlap"), Near(expected.bias_overlap));
  std::vector<double> margins = expected.margins;
  std::sort(margins.begin(), margins.end());
  EXPECT_THAT(samples("router.margin_mean"),
              Near(std::accumulate(margins.begin(), margins.end(), 0.0) / 300));
  EXPECT_NEAR(samples("router.margin_min"), margins[0], 1e-15);
  EXPECT_THAT(samples("router.margin_p10"), Near9(margins[29], 0.02));
  const reference::LoadStatistics load =
      reference::Load({expected.counts.begin(), expected.counts.end()});
  EXPECT_THAT(samples("router.sampled_load.max_violation"), Near(load.max_violation));
  EXPECT_THAT(samples("router.sampled_load.max_violation_ratio"),
              Near(load.max_violation / (32.0 / 4 - 1)));
  EXPECT_THAT(samples("router.sampled_load.entropy"), Near(load.entropy));
  EXPECT_EQ(samples.Flags("router.sampled_load.cv"), model::kFlagSampled);
}

TEST(RouterGates, SoftmaxLogitsAndTheirProbabilitiesGiveTheSame) {
  std::cout << "seed " << kRouterSeed << "\n";
  std::mt19937_64 random(kRouterSeed);
  const std::vector<double> logits = Gaussian(&random, 50 * 8, 2);
  std::vector<double> p = logits;
  for (size_t t = 0; t < 50; ++t) {
    double sum = 0;
    for (size_t e = 0; e < 8; ++e) sum += p[t * 8 + e] = std::exp(logits[t * 8 + e]);
    for (size_t e = 0; e < 8; ++e) p[t * 8 + e] /= sum;
  }
  Rank rank;
  const Samples a = rank.SendAndClose(Gates(logits, 8, v1::SCORE_KIND_SOFTMAX_LOGITS, 2), 0);
  const Samples b = rank.SendAndClose(Gates(p, 8, v1::SCORE_KIND_SOFTMAX, 2), 1);
  for (const model::Sample& sample : b.step().samples) {
    EXPECT_THAT(sample.value, Near(a(sample.series.indicator))) << sample.series.indicator;
  }
  EXPECT_TRUE(a.Has("router.z"));
  EXPECT_FALSE(b.Has("router.z"));  // no logits
}

TEST(RouterGates, SigmoidLogitsAndTheirScoresGiveTheSame) {
  std::cout << "seed " << kRouterSeed << "\n";
  std::mt19937_64 random(kRouterSeed);
  const std::vector<double> logits = Gaussian(&random, 50 * 8, 2);
  std::vector<double> scores;
  for (double z : logits) scores.push_back(1 / (1 + std::exp(-z)));
  Rank rank;
  const Samples a = rank.SendAndClose(Gates(logits, 8, v1::SCORE_KIND_SIGMOID_LOGITS, 2), 0);
  const Samples b = rank.SendAndClose(Gates(scores, 8, v1::SCORE_KIND_SIGMOID, 2), 1);
  for (const model::Sample& sample : b.step().samples) {
    EXPECT_THAT(sample.value, Near9(a(sample.series.indicator), 1e-9)) << sample.series.indicator;
  }
}

TEST(RouterGates, ChosenIndicesReplaceTheTopK) {
  v1::Summary summary = Gates({0.7, 0.2, 0.1, 0.5, 0.3, 0.2}, 3, v1::SCORE_KIND_SOFTMAX);
  *summary.mutable_router_gates()->mutable_chosen() = I64Tensor({2, 1}, {0, 1});
  Rank rank;
  const Samples samples = rank.SendAndClose(summary, 0);
  EXPECT_THAT(samples("router.top_k_mass"), Near(0.5));
  EXPECT_THAT(samples("router.margin_min"), Near(0.5));  // token 2 chose below its best: no margin
  EXPECT_THAT(samples("router.sampled_load.max_violation"), Near(0.5));
  *summary.mutable_router_gates()->mutable_chosen() = I64Tensor({2, 1}, {0, 3});
  EXPECT_THAT(rank.Send(summary, 1),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("allowed are 0..2")));
}

TEST(RouterGates, FewTokensFlagWhatTheyBias) {
  Rank rank;
  const Samples samples =
      rank.SendAndClose(Gates({0.9, 0.1, 0.1, 0.9}, 2, v1::SCORE_KIND_SOFTMAX, 1), 0);
  EXPECT_EQ(samples.Flags("router.mutual_information"), model::kFlagFewTokens);
  EXPECT_EQ(samples.Flags("router.sampled_load.cv"), model::kFlagFewTokens | model::kFlagSampled);
  EXPECT_EQ(samples.Flags("router.token_entropy"), 0u);
}

TEST(RouterGates, SampledLoadOnlyWithoutExactLoad) {
  Rank rank;
  ASSERT_OK(rank.Send(Gates({0.9, 0.1}, 2, v1::SCORE_KIND_SOFTMAX, 1), 0));
  ASSERT_OK(rank.Send(Load({3, 4}), 0));
  const Samples both = rank.Close(0);
  EXPECT_FALSE(both.Has("router.sampled_load.entropy"));
  EXPECT_TRUE(both.Has("load.entropy"));
  EXPECT_TRUE(both.Has("router.top_k_mass"));
}

TEST(RouterGates, SelectionNeedsAKAndUngroupedRouting) {
  Rank rank;
  EXPECT_EQ(rank.SendAndClose(Gates({0.9, 0.1}, 2, v1::SCORE_KIND_SOFTMAX), 0)
                .Reason("router.sampled_load"),
            "unknown_top_k");
  rank.model().set_top_k(2);
  const Samples all = rank.SendAndClose(Gates({0.9, 0.1}, 2, v1::SCORE_KIND_SOFTMAX), 1);
  EXPECT_FALSE(all.Has("router.margin_min"));  // k = E has no margin
  EXPECT_THAT(all("router.top_k_mass"), Near(1));
  rank.model().set_router_groups(4);
  EXPECT_EQ(rank.SendAndClose(Gates({0.9, 0.1}, 2, v1::SCORE_KIND_SOFTMAX, 1), 2)
                .Reason("router.sampled_load"),
            "group_limited");
}

TEST(RouterGates, BadRowsAreCountedAndAllBadRowsRefused) {
  Rank rank;
  const Samples some =
      rank.SendAndClose(Gates({0.5, 0.5, -1, 2, 0, 0}, 2, v1::SCORE_KIND_SIGMOID, 1), 0);
  EXPECT_THAT(some("router.token_entropy_ratio"), Near(1));
  EXPECT_EQ(some.Reason("router.token_entropy"), "rejected_rows");
  EXPECT_THAT(rank.Send(Gates({-1, 2}, 2, v1::SCORE_KIND_SOFTMAX, 1), 1),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("all 1 rows")));
}

TEST(RouterGates, NonFiniteScoreIsAFindingAndNothingElse) {
  Rank rank;
  const Samples samples =
      rank.SendAndClose(Gates({0.5, NAN, 0.5, 0.5}, 2, v1::SCORE_KIND_SOFTMAX, 1), 0);
  EXPECT_EQ(samples("train.nonfinite", 0, "router_gates.scores"), 1);
  EXPECT_FALSE(samples.Has("router.token_entropy"));
  v1::Summary biased = Gates({0.5, 0.5}, 2, v1::SCORE_KIND_SOFTMAX, 1);
  *biased.mutable_router_gates()->mutable_correction_bias() = F64Tensor({2}, {NAN, 0});
  const Samples bias = rank.SendAndClose(biased, 1);
  EXPECT_EQ(bias("train.nonfinite", 0, "router_gates.correction_bias"), 1);
  EXPECT_FALSE(bias.Has("router.token_entropy"));
}

TEST(RouterGates, Bf16ScoresAreDecodedExactly) {
  v1::Summary summary = Gates({0, 0}, 2, v1::SCORE_KIND_SOFTMAX_LOGITS, 1);
  *summary.mutable_router_gates()->mutable_scores() = Bf16Tensor({1, 2}, {1.5, -2.25});
  Rank rank;
  EXPECT_THAT(rank.SendAndClose(summary, 0)("router.logit_absmax"), 2.25);
}

TEST(RouterGates, ShardsHaveTheTokensTheirSenderSees) {
  Rank rank;
  rank.coordinates().set_data(2);
  rank.coordinates().set_tensor(7);
  ASSERT_OK(rank.Send(Gates({0.9, 0.1}, 2, v1::SCORE_KIND_SOFTMAX, 1), 0));
  rank.coordinates().set_tensor(1);
  ASSERT_OK(rank.Send(Gates({0.9, 0.1}, 2, v1::SCORE_KIND_SOFTMAX, 1), 0));
  rank.coordinates().set_context(1);
  ASSERT_OK(rank.Send(Gates({0.9, 0.2}, 2, v1::SCORE_KIND_SIGMOID, 1), 0));
  v1::Summary named = Gates({0.9, 0.1}, 2, v1::SCORE_KIND_SOFTMAX, 1);
  named.mutable_router_gates()->set_token_shard(2ull << 32);
  ASSERT_OK(rank.Send(named, 0));
  const auto source = [&](int i) { return rank.shards().gates(i).sources(0); };
  EXPECT_EQ(source(0).id(), source(1).id());  // tensor-parallel siblings are replicas
  EXPECT_EQ(source(0).fingerprint(), source(1).fingerprint());
  EXPECT_NE(source(1).id(), source(2).id());
  EXPECT_NE(source(1).fingerprint(), source(2).fingerprint());
  EXPECT_NE(source(0).id(), source(3).id());  // a name never meets a derived id
}

TEST(LogSketch, QuantilesAreWithinTwoPercentAndBinsAdd) {
  std::cout << "seed " << kRouterSeed << "\n";
  std::mt19937_64 random(kRouterSeed);
  std::vector<double> values;
  LogSketch all, left, right;
  for (int i = 0; i < 5000; ++i) {
    values.push_back(std::exp(std::normal_distribution<double>(-8, 6)(random)));
    all.Add(values.back());
    (i % 3 == 0 ? left : right).Add(values.back());
  }
  for (const auto& [bin, count] : right.bins()) left.AddBin(bin, count);
  EXPECT_EQ(left.bins(), all.bins());
  std::sort(values.begin(), values.end());
  for (double q : {0.001, 0.1, 0.5, 0.9, 1.0}) {
    const double expected = values[static_cast<size_t>(std::ceil(q * 5000)) - 1];
    EXPECT_THAT(all.Quantile(q), Near9(expected, 0.02)) << q;
  }
  LogSketch zeros;
  EXPECT_EQ(zeros.Quantile(0.1), 0);
  zeros.Add(0, 9);
  zeros.Add(5);
  EXPECT_EQ(zeros.Quantile(0.9), 0);
  EXPECT_THAT(zeros.Quantile(0.91), Near9(5, 0.02));
}

TEST(RouterLoad, StatisticsAgreeWithTheObviousVersion) {
  std::cout << "seed " << kRouterSeed << "\n";
  std::mt19937_64 random(kRouterSeed);
  for (size_t experts : {2, 8, 256}) {
    std::vector<int64_t> counts;
    for (size_t e = 0; e < experts; ++e) counts.push_back(static_cast<int64_t>(random() % 1000));
    v1::Summary summary = Load(counts);
    *summary.mutable_router_load()->mutable_dropped() =
        I64Tensor({static_cast<uint32_t>(experts)}, std::vector<int64_t>(experts, 1));
    std::vector<double> mass(counts.begin(), counts.end());
    for (double& m : mass) m *= m;
    *summary.mutable_router_load()->mutable_gate_mass() =
        F64Tensor({static_cast<uint32_t>(experts)}, mass);
    Rank rank;
    rank.model().set_top_k(1);
    const Samples samples = rank.SendAndClose(summary, 0);
    for (const bool is_mass : {false, true}) {
      const std::string family = is_mass ? "load.mass" : "load";
      const reference::LoadStatistics expected =
          reference::Load(is_mass ? mass : std::vector<double>(counts.begin(), counts.end()));
      const double e = static_cast<double>(experts);
      EXPECT_THAT(samples(family + ".max_violation"), Near(expected.max_violation));
      EXPECT_THAT(samples(family + ".max_violation_ratio"), Near(expected.max_violation / (e - 1)));
      EXPECT_THAT(samples(family + ".min_violation"), Near(expected.min_violation));
      EXPECT_THAT(samples(family + ".mean_violation"), Near(expected.mean_violation));
      EXPECT_THAT(samples(family + ".cv"), Near(expected.cv));
      EXPECT_THAT(samples(family + ".entropy"), Near(expected.entropy));
      EXPECT_THAT(samples(family + ".effective_experts"), Near(std::exp(expected.entropy)));
    }
    const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
    EXPECT_THAT(samples("load.drop_fraction"), Near(static_cast<double>(experts) / total));
    EXPECT_THAT(samples("load.share", 1),
                Near(static_cast<double>(experts) * static_cast<double>(counts[1]) / total));
  }
}

TEST(RouterLoad, ExpertRangesOfSeveralRanksJoin) {
  Rank rank;
  rank.model().set_experts(4);
  ASSERT_OK(rank.Send(Load({30, 10}, 2), 0));
  EXPECT_EQ(rank.Close(0).Reason("load"), "experts_missing");
  ASSERT_OK(rank.Send(Load({30, 10}, 2), 1));
  ASSERT_OK(rank.Send(Load({40, 20}, 0), 1));
  EXPECT_THAT(rank.Close(1)("load.share", 3), Near(0.4));
  ASSERT_OK(rank.Send(Load({30, 10, 5}, 1), 2));
  ASSERT_OK(rank.Send(Load({40, 20}, 0), 2));
  EXPECT_EQ(rank.Close(2).Reason("load"), "overlapping_experts");
  EXPECT_THAT(rank.Send(Load({1, 1}, 3), 3),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("experts 3..4")));
  EXPECT_THAT(rank.Send(Load({1, -1}, 0), 3),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative")));
}

TEST(RouterLoad, WithoutAssignmentsOrKThingsAreUndefined) {
  Rank rank;
  EXPECT_EQ(rank.SendAndClose(Load({0, 0}), 0).Reason("load"), "no_assignments");
  const Samples samples = rank.SendAndClose(Load({1, 3}), 1);
  EXPECT_EQ(samples.Reason("load.max_violation_ratio"), "unknown_top_k");
  EXPECT_FALSE(samples.Has("load.drop_fraction"));
  EXPECT_FALSE(samples.Has("load.mass.cv"));
  rank.model().set_top_k(2);
  EXPECT_EQ(rank.SendAndClose(Load({1, 3}), 2).Reason("load.max_violation_ratio"),
            "all_experts_chosen");
}

TEST(RouterLoad, AnExpertIsDeadAfterTwoHundredStepsUnderOnePercent) {
  Rank rank;
  for (int64_t step = 0; step < 400; ++step) {
    // Even load is 250. Expert 2 gets 2 a step: dead. Expert 3 dies at step 150.
    const Samples samples = rank.SendAndClose(Load({500, 400, 2, step < 150 ? 98 : 0}), step);
    if (step < 199) {
      EXPECT_EQ(samples.Reason("load.dead_fraction"), "warming_up") << step;
    } else if (step < 340) {
      EXPECT_THAT(samples("load.dead_fraction"), Near(0.25)) << step;
    } else if (step >= 359) {  // 98 in at most 209 steps of 250 is still over 1 % until then
      EXPECT_THAT(samples("load.dead_fraction"), Near(0.5)) << step;
    }
  }
}

TEST(RouterWeights, AgreeWithTheObviousVersion) {
  std::cout << "seed " << kRouterSeed << "\n";
  std::mt19937_64 random(kRouterSeed);
  for (const auto& [experts, d] : {std::pair<uint32_t, size_t>{3, 4}, {8, 64}, {16, 16}}) {
    std::vector<double> weights = Gaussian(&random, experts * d, 0.02);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] += 0.01;  // a common part
    Rank rank;
    const Samples samples = rank.SendAndClose(Weights(weights, experts), 0);
    const reference::RouterStatistics expected = reference::RouterWeights(weights, experts);
    EXPECT_THAT(samples("router.weight_similarity"), Near(expected.similarity));
    EXPECT_THAT(samples("router.centred_conditioning"), Near(expected.conditioning));
    EXPECT_THAT(samples("router.centred_kappa"), Near(expected.kappa));
    EXPECT_THAT(samples("router.centred_effective_rank"), Near(expected.effective_rank));
    EXPECT_EQ(samples.Reason("router.weight_relative_norm"), "no_base");
  }
}

TEST(RouterWeights, RelativeNormAndItsGate) {
  Rank rank;
  std::vector<double> weights = {1, 0, 0, 1, 1, 1};
  rank.SendAndClose(Weights(weights, 3), 0);
  weights[0] = 1.125;
  v1::Summary summary = Weights(weights, 3);
  const Samples f64 = rank.SendAndClose(summary, 50);
  const double norm = std::sqrt(3 + 1.125 * 1.125);
  EXPECT_THAT(f64("router.weight_relative_norm"), Near(0.125 / norm));
  EXPECT_EQ(f64.Flags("router.weight_relative_norm"), 0u);
  EXPECT_EQ(rank.SendAndClose(summary, 100).Reason("router.weight_relative_norm"), "zero_update");
  weights[0] = 1.126;
  summary = Weights(weights, 3);
  summary.mutable_router_weights()->set_weight_dtype(v1::DTYPE_BF16);
  EXPECT_EQ(rank.SendAndClose(summary, 150).Flags("router.weight_relative_norm"), model::kFlagGrid);
}

TEST(RouterWeights, RowShardsAddToTheWhole) {
  std::cout << "seed " << kRouterSeed << "\n";
  std::mt19937_64 random(kRouterSeed);
  const uint32_t experts = 5, d = 12;
  const std::vector<double> weights = Gaussian(&random, experts * d);
  Rank rank;
  const Samples whole = rank.SendAndClose(Weights(weights, experts), 0);
  model::RouterWeightShard sum;
  for (uint32_t begin : {0u, 8u}) {
    const uint32_t count = begin == 0 ? 8 : 4;
    std::vector<double> part;
    for (size_t e = 0; e < experts; ++e) {
      for (size_t c = begin; c < begin + count; ++c) part.push_back(weights[e * d + c]);
    }
    v1::Summary summary = Weights(part, experts);
    v1::RowRange* rows = summary.mutable_router_weights()->mutable_rows();
    rows->set_begin(begin);
    rows->set_count(count);
    rows->set_total(d);
    ASSERT_OK(rank.Send(summary, 1));
    const model::RouterWeightShard shard = rank.shards().router_weights(0);
    EXPECT_EQ(rank.Close(1).Reason("router.weight_similarity"), "rows_missing");
    if (begin == 0) {
      sum = shard;
      continue;
    }
    for (int i = 0; i < sum.gram_size(); ++i) sum.set_gram(i, sum.gram(i) + shard.gram(i));
    sum.set_rows_covered(d);
  }
  *rank.shards().add_router_weights() = sum;
  const Samples joined = rank.Close(2);
  for (const char* id :
       {"router.weight_similarity", "router.centred_kappa", "router.centred_conditioning"}) {
    EXPECT_THAT(joined(id), Near(whole(id))) << id;
  }
}

TEST(RouterCoactivation, IsCheckedAndPassedOn) {
  v1::Summary summary;
  v1::RouterCoactivation* payload = summary.mutable_router_coactivation();
  payload->set_experts(3);
  payload->set_tokens(10);
  *payload->mutable_pair_counts() = I64Tensor({3}, {1, 2, 3});
  Rank rank;
  ASSERT_OK(rank.Send(summary, 0));
  ASSERT_EQ(rank.shards().coactivation_size(), 1);
  EXPECT_EQ(rank.shards().coactivation(0).pair_counts(2), 3);
  EXPECT_EQ(rank.shards().coactivation(0).tokens(), 10u);
  payload->set_experts(4);
  EXPECT_THAT(rank.Send(summary, 0),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 pair counts")));
  payload->set_experts(3);
  *payload->mutable_pair_counts() = I64Tensor({3}, {1, -2, 3});
  EXPECT_THAT(rank.Send(summary, 0),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative")));
}

}  // namespace
}  // namespace foreshock::indicators
