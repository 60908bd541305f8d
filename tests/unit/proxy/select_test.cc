// Selection against slow, obvious references.
#include "proxy/select.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proxy/gram.h"
#include "proxy/medoids.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy/synthetic.h"

namespace foreshock::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Set = std::vector<int>;

Matrix RandomMatrix(int rows, int columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Matrix matrix(rows, columns);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) matrix.data()[i] = normal(random);
  return matrix;
}

// Real routing: every token takes its top_k best experts; so all sums agree with each other.
LayerStats Route(const Matrix& router, int tokens, int top_k, unsigned seed) {
  const Matrix inputs = RandomMatrix(tokens, static_cast<int>(router.cols()), seed);
  const Eigen::Index experts = router.rows();
  LayerStats stats;
  stats.tokens = tokens;
  stats.frequency = Vector::Zero(experts);
  stats.coactivation = Matrix::Zero(experts, experts);
  stats.input_sum = Vector::Zero(router.cols());
  stats.expert_input_sum = Matrix::Zero(experts, router.cols());
  stats.gate_sum = Vector::Zero(experts);
  for (Eigen::Index t = 0; t < tokens; ++t) {
    const Vector logits = router * inputs.row(t).transpose();
    Set best = Ranking(logits, Vector::Zero(experts));
    best.resize(static_cast<size_t>(top_k));
    *stats.input_sum += inputs.row(t).transpose();
    for (const int a : best) {
      stats.frequency(a) += 1;
      (*stats.gate_sum)(a) += std::exp(logits(a));
      stats.expert_input_sum->row(a) += inputs.row(t);
      for (const int b : best) (*stats.coactivation)(a, b) += 1;
    }
  }
  return stats;
}

double SlowCosineDistance(const std::vector<double>& a, const std::vector<double>& b) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa == 0 || bb == 0 ? 1 : 1 - dot / std::sqrt(aa * bb);
}

// A sum of n rounded terms of size 1 is off by less than n times 2^-52.
constexpr double kRounding = 1e-13;

TEST(Distances, EachViewIsWhatItsDefinitionSays) {
  const int experts = 9;
  const Matrix router = RandomMatrix(experts, 5, 1);
  const LayerStats stats = Route(router, 500, 3, 2);
  const Matrix by_router = RouterDistances(router, true);
  const Matrix by_partners = CoactivationDistances(*stats.coactivation, Coactivation::kProfile);
  const Matrix raw = CoactivationDistances(*stats.coactivation, Coactivation::kRaw);
  const Matrix direct = CoactivationDistances(*stats.coactivation, Coactivation::kDirect);
  const Matrix by_context = ContextDistances(stats);
  for (int i = 0; i < experts; ++i) {
    for (int j = 0; j < experts; ++j) {
      if (i == j) {
        EXPECT_EQ(by_router(i, i) + by_partners(i, i) + by_context(i, i) + direct(i, i), 0);
        continue;
      }
      std::vector<double> wi, wj, hi, hj, ci, cj, ni, nj;
      for (int c = 0; c < 5; ++c) {
        double mean = 0;
        for (int e = 0; e < experts; ++e) mean += router(e, c) / experts;
        wi.push_back(router(i, c) - mean);
        wj.push_back(router(j, c) - mean);
        const double mu = (*stats.input_sum)(c) / stats.tokens;
        hi.push_back((*stats.expert_input_sum)(i, c) / stats.frequency(i) - mu);
        hj.push_back((*stats.expert_input_sum)(j, c) / stats.frequency(j) - mu);
      }
      for (int m = 0; m < experts; ++m) {
        if (m == i || m == j) continue;
        ni.push_back((*stats.coactivation)(i, m));
        nj.push_back((*stats.coactivation)(j, m));
        ci.push_back((*stats.coactivation)(i, m) / stats.frequency(m));
        cj.push_back((*stats.coactivation)(j, m) / stats.frequency(m));
      }
      EXPECT_NEAR(by_router(i, j), SlowCosineDistance(wi, wj), kRounding);
      EXPECT_NEAR(by_context(i, j), SlowCosineDistance(hi, hj), kRounding);
      EXPECT_NEAR(by_partners(i, j), SlowCosineDistance(ci, cj), kRounding);
      EXPECT_NEAR(raw(i, j), SlowCosineDistance(ni, nj), kRounding);
      EXPECT_EQ(direct(i, j),
                1 - (*stats.coactivation)(i, j) / std::min(stats.frequency(i), stats.frequency(j)));
    }
  }
}

double Cost(const Matrix& distances, const Set& medoids) {
  double sum = 0;
  for (Eigen::Index i = 0; i < distances.rows(); ++i) {
    double least = 1e300;
    for (const int m : medoids) least = std::min(least, distances(i, m));
    sum += least;
  }
  return sum;
}

// Tries every swap by computing the whole cost anew.
Set SlowMedoids(const Matrix& distances, const Vector& frequency, int keep) {
  const Set order = Ranking(frequency, frequency);
  Set medoids(order.begin(), order.begin() + keep);
  while (true) {
    Set best = medoids;
    double least = Cost(distances, medoids) - 1e-12;
    for (const int in : order) {
      if (std::count(medoids.begin(), medoids.end(), in) > 0) continue;
      for (size_t out = 0; out < medoids.size(); ++out) {
        Set next = medoids;
        next[out] = in;
        // Two costs that differ by rounding are a tie: the earlier in the order has won it.
        if (Cost(distances, next) < least - (best == medoids ? 0 : 1e-12)) {
          least = Cost(distances, next);
          best = next;
        }
      }
    }
    if (best == medoids) break;
    medoids = best;
  }
  std::sort(medoids.begin(), medoids.end());
  return medoids;
}

double ExhaustiveCost(const Matrix& distances, int keep) {
  const auto experts = static_cast<unsigned>(distances.rows());
  double least = 1e300;
  for (unsigned mask = 0; mask < 1u << experts; ++mask) {
    Set medoids;
    for (unsigned e = 0; e < experts; ++e) {
      if (mask >> e & 1) medoids.push_back(static_cast<int>(e));
    }
    if (static_cast<int>(medoids.size()) == keep) least = std::min(least, Cost(distances, medoids));
  }
  return least;
}

TEST(Distances, JensenShannonIsZeroForTheSamePartnersAndOneForOthers) {
  // Experts 0 and 1 are chosen with 2 alone, 3 with 4 alone; 5 with all of them.
  Matrix counts = Matrix::Zero(6, 6);
  const auto pair = [&](int i, int j, double times) { counts(i, j) = counts(j, i) = times; };
  pair(0, 2, 10);
  pair(1, 2, 30);
  pair(3, 4, 20);
  counts.diagonal() = counts.rowwise().sum();
  const Matrix distances = CoactivationDistances(counts, Coactivation::kJensenShannon);
  EXPECT_NEAR(distances(0, 1), 0, 1e-15);
  EXPECT_NEAR(distances(0, 3), 1, 1e-15);
  EXPECT_EQ(distances(0, 5), 1);  // never chosen: nothing can be said
  EXPECT_EQ(distances, distances.transpose());
  // Half of one distribution is that of the other: p = (1, 0), q = (1/2, 1/2) over 2 and 4.
  pair(1, 4, 20 * 30.0 / 40);  // N_im / f_m is then 30 / f_2 twice
  counts(2, 2) = 40;
  counts(4, 4) = 20;
  const Matrix again = CoactivationDistances(counts, Coactivation::kJensenShannon);
  EXPECT_NEAR(again(0, 1), std::sqrt(0.5 * std::log2(4.0 / 3) + 0.25 * std::log2(2.0 / 3) + 0.25),
              1e-15);
}

TEST(Gram, EveryInstructionSetGivesTheSameBitsAndTheRightNumbers) {
  GramFunction functions[3];
  const int sets = GramFunctions(functions);
  for (const auto& [count, width] : {std::pair{1, 1}, {2, 3}, {5, 7}, {16, 256}, {13, 1027}}) {
    const Matrix rows = RandomMatrix(count, width, static_cast<unsigned>(count + width));
    Matrix first = Matrix::Zero(count, count);
    functions[0](rows.data(), count, width, first.data());
    const Matrix slow = rows * rows.transpose();
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < count; ++j) {
        // Sums of `width` products of numbers of size 1, each rounded.
        EXPECT_NEAR(first(i, j), j <= i ? slow(i, j) : 0, 1e-15 * width * 8);
      }
    }
    for (int set = 1; set < sets; ++set) {
      Matrix other = Matrix::Zero(count, count);
      functions[set](rows.data(), count, width, other.data());
      EXPECT_EQ(other, first) << "set " << set;
    }
  }
}

TEST(Medoids, SameAsTheSlowSwapsAndNeverBelowTheOptimum) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Matrix distances = RouterDistances(RandomMatrix(10, 4, seed), true);
    const Vector frequency = RandomMatrix(10, 1, seed + 1000).col(0).array().abs();
    for (const int keep : {1, 3, 5, 10}) {
      const Set medoids = Medoids(distances, Vector::Ones(10), frequency, keep);
      EXPECT_EQ(medoids, SlowMedoids(distances, frequency, keep)) << seed << " " << keep;
      EXPECT_GE(Cost(distances, medoids), ExhaustiveCost(distances, keep) - 1e-12);
    }
  }
}

TEST(Medoids, TiesGoToTheLargerFrequencyThenTheLowerIndex) {
  const Matrix same = Matrix::Zero(4, 4);
  Vector frequency(4);
  frequency << 1, 5, 5, 9;
  EXPECT_THAT(Medoids(same, Vector::Ones(4), frequency, 2), ElementsAre(1, 3));
}

// Experts in pairs of near-copies: e and e + E/2.
Matrix PlantedRouter(int experts, unsigned seed) {
  Matrix router = RandomMatrix(experts, 16, seed);
  router.bottomRows(experts / 2) =
      router.topRows(experts / 2) + 1e-3 * RandomMatrix(experts / 2, 16, seed + 1);
  return router;
}

TEST(SelectLayer, PlantedPairsAreFoundAndTheFrequentOneIsKept) {
  const int experts = 16;
  const Matrix router = PlantedRouter(experts, 3);
  LayerStats stats = Route(router, 4000, 4, 4);
  SelectOptions options;
  options.keep = experts / 2;
  options.coactivation_weight = 0;  // both of a pair are chosen together: see the router's rows
  std::vector<std::string> warnings;
  ASSERT_OK_AND_ASSIGN(const LayerPlan plan, SelectLayer(0, router, &stats, 1, options, &warnings));
  ASSERT_EQ(plan.kept.size(), 8u);
  EXPECT_TRUE(std::is_sorted(plan.kept.begin(), plan.kept.end()));
  for (int e = 0; e < experts / 2; ++e) {
    EXPECT_EQ(plan.cluster[static_cast<size_t>(e)], plan.cluster[static_cast<size_t>(e + 8)]);
    const bool first = std::count(plan.kept.begin(), plan.kept.end(), e) > 0;
    const bool second = std::count(plan.kept.begin(), plan.kept.end(), e + 8) > 0;
    EXPECT_NE(first, second) << e;
  }
  options.selector = "router-only";
  ASSERT_OK_AND_ASSIGN(const LayerPlan alone,
                       SelectLayer(0, router, nullptr, 1, options, &warnings));
  EXPECT_EQ(alone.cluster.size(), 16u);
}

TEST(SelectLayer, TheExampleOfTheDocumentation) {
  Matrix router(4, 2);
  router << 1, 0, 0.9, 0.1, 0, 1, 0.1, 0.9;
  LayerStats stats;
  stats.frequency = Vector(4);
  stats.frequency << 400, 600, 700, 300;
  SelectOptions options;
  options.keep = 2;
  options.coactivation_weight = options.context_weight = 0;
  std::vector<std::string> warnings;
  ASSERT_OK_AND_ASSIGN(const LayerPlan plan, SelectLayer(0, router, &stats, 1, options, &warnings));
  EXPECT_THAT(plan.kept, ElementsAre(1, 2));
  EXPECT_THAT(plan.cluster, ElementsAre(0, 0, 1, 1));
}

TEST(SelectLayer, PermutedExpertsGiveThePermutedPlan) {
  const int experts = 12;
  const Matrix router = RandomMatrix(experts, 8, 7);
  Set order = {5, 3, 11, 0, 8, 2, 10, 7, 1, 9, 4, 6};
  Matrix permuted(experts, 8);
  for (int i = 0; i < experts; ++i) permuted.row(i) = router.row(order[static_cast<size_t>(i)]);
  SelectOptions options;
  options.keep = 5;
  std::vector<std::string> warnings;
  const LayerStats stats = Route(router, 2000, 3, 8);
  const LayerStats stats_permuted = Route(permuted, 2000, 3, 8);
  ASSERT_OK_AND_ASSIGN(const LayerPlan a, SelectLayer(0, router, &stats, 1, options, &warnings));
  ASSERT_OK_AND_ASSIGN(const LayerPlan b,
                       SelectLayer(0, permuted, &stats_permuted, 1, options, &warnings));
  Set back;
  for (const int e : b.kept) back.push_back(order[static_cast<size_t>(e)]);
  std::sort(back.begin(), back.end());
  EXPECT_EQ(back, a.kept);
}

TEST(SelectLayer, UnseenExpertsAreKeptOnlyWhenNoOtherIsLeft) {
  const Matrix router = RandomMatrix(6, 4, 9);
  LayerStats stats = Route(router, 600, 2, 10);
  stats.frequency(1) = stats.frequency(4) = 3;
  SelectOptions options;
  options.context_weight = 0;
  std::vector<std::string> warnings;
  for (const int keep : {3, 4, 5}) {
    options.keep = keep;
    ASSERT_OK_AND_ASSIGN(const LayerPlan plan,
                         SelectLayer(2, router, &stats, 1, options, &warnings));
    EXPECT_THAT(plan.unseen, ElementsAre(1, 4));
    const auto unseen = std::count(plan.kept.begin(), plan.kept.end(), 1) +
                        std::count(plan.kept.begin(), plan.kept.end(), 4);
    EXPECT_EQ(unseen, std::max(0, keep - 4));
  }
  EXPECT_THAT(warnings[0], HasSubstr("layer 2: 2 of 6 experts have fewer than 32 tokens"));
}

TEST(SelectLayer, EverySelectorKeepsAsManyOfEachGroup) {
  const Matrix router = RandomMatrix(8, 4, 11);
  LayerStats stats = Route(router, 1000, 2, 12);
  stats.expert_norm_sum = stats.frequency * 2;
  stats.gated_norm_sum = *stats.gate_sum;
  for (const std::string& selector : Selectors()) {
    SelectOptions options;
    options.keep = 4;
    options.selector = selector;
    std::vector<std::string> warnings;
    ASSERT_OK_AND_ASSIGN(const LayerPlan plan,
                         SelectLayer(0, router, &stats, 2, options, &warnings));
    ASSERT_EQ(plan.kept.size(), 4u) << selector;
    EXPECT_TRUE(plan.kept[1] < 4 && plan.kept[2] >= 4) << selector;
    if (selector == "first-k") {
      EXPECT_THAT(plan.kept, ElementsAre(0, 1, 4, 5));
    }
  }
}

TEST(SelectLayer, WhatTheCalibrationLacksIsNamed) {
  const Matrix router = RandomMatrix(8, 4, 11);
  LayerStats stats = Route(router, 1000, 2, 12);
  stats.coactivation.reset();
  stats.gate_sum.reset();
  SelectOptions options;
  options.keep = 4;
  std::vector<std::string> warnings;
  EXPECT_THAT(SelectLayer(3, router, &stats, 1, options, &warnings),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("layer 3 has no coactivation")));
  options.selector = "gate-mass";
  EXPECT_THAT(SelectLayer(3, router, &stats, 1, options, &warnings),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no gate_sum")));
}

// A calibration file of a layer; `top_k` 2.
std::string EncodeCalibration(const LayerStats& stats, const std::string& experts) {
  nlohmann::ordered_json header = {{"__metadata__",
                                    {{"format", "foreshock.calibration.v1"},
                                     {"model_type", "qwen3_moe"},
                                     {"experts", experts},
                                     {"top_k", "2"}}}};
  std::string data;
  for (const int layer : {0, 1}) {
    const auto add = [&](const char* name, std::vector<int64_t> shape, const Matrix& values) {
      const size_t begin = data.size();
      for (Eigen::Index i = 0; i < values.size(); ++i) {
        const auto value = static_cast<int64_t>(values.data()[i]);
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
      header[absl::StrCat("layers.", layer, ".", name)] = {
          {"dtype", "I64"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
    };
    add("tokens", {}, Matrix::Constant(1, 1, stats.tokens));
    add("frequency", {kExperts}, stats.frequency.transpose());
    add("coactivation", {kExperts, kExperts}, *stats.coactivation);
  }
  return EncodeRaw(header.dump(), data);
}

TEST(Select, SameInputsGiveTheSamePlanAndFilesAdd) {
  support::TempDir dir;
  Write(MakeModel("qwen3_moe"), dir.path(), 2);
  ASSERT_OK_AND_ASSIGN(const Families families, Families::Builtin());
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, OpenCheckpoint(dir.path()));
  ASSERT_OK_AND_ASSIGN(const Model model, Recognise(checkpoint, families));
  LayerStats stats = Route(RandomMatrix(kExperts, 4, 1), 900, 2, 2);
  WriteText(dir.File("c"), EncodeCalibration(stats, "8"));
  ASSERT_OK_AND_ASSIGN(const Calibration once, Calibration::Open({dir.File("c")}, model));
  ASSERT_OK_AND_ASSIGN(const Calibration twice,
                       Calibration::Open({dir.File("c"), dir.File("c")}, model));
  ASSERT_OK_AND_ASSIGN(const LayerStats single, once.Load(1));
  ASSERT_OK_AND_ASSIGN(const LayerStats sum, twice.Load(1));
  EXPECT_EQ(single.frequency, stats.frequency);
  EXPECT_EQ(sum.tokens, 2 * stats.tokens);
  EXPECT_EQ(*sum.coactivation, *stats.coactivation * 2);
  SelectOptions options;
  options.keep = 4;
  options.context_weight = 0;
  ASSERT_OK_AND_ASSIGN(const Plan a, Select(checkpoint, model, once, options));
  ASSERT_OK_AND_ASSIGN(const Plan b, Select(checkpoint, model, once, options));
  EXPECT_EQ(FormatPlan(a), FormatPlan(b));
  EXPECT_EQ(a.layers.size(), 2u);
  EXPECT_EQ(a.calibration_sha256.size(), 1u);

  options.keep = 1;
  EXPECT_THAT(Select(checkpoint, model, once, options),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fewer than top-k")));
  WriteText(dir.File("other"), EncodeCalibration(stats, "16"));
  EXPECT_THAT(
      Calibration::Open({dir.File("other")}, model),
      support::StatusIs(absl::StatusCode::kInvalidArgument,
                        HasSubstr("the metadata's experts is '16', the checkpoint needs '8'")));
  stats.frequency(0) += 1;
  WriteText(dir.File("bad"), EncodeCalibration(stats, "8"));
  ASSERT_OK_AND_ASSIGN(const Calibration bad, Calibration::Open({dir.File("bad")}, model));
  EXPECT_THAT(bad.Load(0), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("layer 0: frequencies add to 1801")));
}

}  // namespace
}  // namespace foreshock::proxy
