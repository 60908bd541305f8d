// QkFactors and QkGram: windows, layouts, shards, the grid gate.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "daemon/indicators/grid_gate.h"
#include "daemon/indicators/qk_spectra.h"
#include "tests/reference/spectrum_reference.h"
#include "tests/unit/indicators/harness.h"
#include "tests/unit/indicators/qk_payloads.h"

namespace foreshock::indicators {
namespace {

using reference::Head;
using ::testing::HasSubstr;

constexpr uint64_t kQkSeed = 11;

void ExpectSpectrum(const Samples& samples, const std::string& family,
                    const reference::Spectrum& expected, size_t bound, int64_t head,
                    double tolerance = 1e-9) {
  SCOPED_TRACE(family);
  const double log_bound = std::log(static_cast<double>(bound));
  const auto near = [&](double value) { return Near9(value, tolerance); };
  EXPECT_THAT(samples(family + ".entropy", head), near(expected.entropy));
  EXPECT_THAT(samples(family + ".entropy_l1", head), near(expected.entropy_l1));
  EXPECT_THAT(samples(family + ".entropy_ratio", head), near(expected.entropy / log_bound));
  EXPECT_THAT(samples(family + ".entropy_ratio_l1", head), near(expected.entropy_l1 / log_bound));
  EXPECT_THAT(samples(family + ".effective_rank", head), near(expected.effective_rank));
  EXPECT_THAT(samples(family + ".effective_rank_l1", head), near(expected.effective_rank_l1));
  EXPECT_THAT(samples(family + ".stable_rank", head), near(expected.stable_rank));
  EXPECT_THAT(samples(family + ".norm", head), near(expected.norm));
}

void ExpectHead(const Samples& samples, const Head& head, int64_t id, double tolerance = 1e-9) {
  const reference::QkSpectra expected = reference::SpectraOf(head, 53);
  const size_t narrow = std::min(head.d, head.r);
  ExpectSpectrum(samples, "attn.delta2", expected.delta2, std::min(head.d, 2 * head.r), id,
                 tolerance);
  ExpectSpectrum(samples, "attn.delta3", expected.delta3, narrow, id, tolerance);
  ExpectSpectrum(samples, "attn.delta_q", expected.delta_q, narrow, id, tolerance);
  ExpectSpectrum(samples, "attn.delta_k", expected.delta_k, narrow, id, tolerance);
  EXPECT_THAT(samples("attn.qk.effective_rank", id), Near(expected.qk.effective_rank));
  EXPECT_THAT(samples("attn.qk.effective_rank_l1", id), Near(expected.qk.effective_rank_l1));
  EXPECT_THAT(samples("attn.qk.stable_rank", id), Near(expected.qk.stable_rank));
  EXPECT_THAT(samples("attn.qk.norm", id), Near(expected.qk.norm));
  EXPECT_THAT(samples("attn.delta2.relative_norm", id),
              Near(expected.delta2.norm / expected.qk.norm));
  EXPECT_THAT(samples("attn.delta.norm_ratio", id),
              Near(expected.delta3.norm / expected.delta2.norm));
}

// A window of one head through two QkFactors payloads.
Samples FactorWindow(const Head& head, Rank* rank) {
  rank->SendAndClose(FactorsOf(head.q, head.k, head.d, head.r), 100);
  return rank->SendAndClose(
      FactorsOf(Sum(head.q, head.delta_q), Sum(head.k, head.delta_k), head.d, head.r), 150);
}

struct Case {
  size_t d, r;
  double update;
};

TEST(QkFactors, AgreeWithTheDenseSvd) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  for (const Case& test : {Case{40, 8, 0.1},
                           {40, 8, 1e-3},
                           {16, 8, 0.1},
                           {12, 8, 0.1},
                           {8, 8, 0.1},
                           {5, 8, 0.1},
                           {1, 4, 0.1},
                           {30, 1, 0.1},
                           {2, 1, 0.1}}) {
    SCOPED_TRACE(absl::StrCat("d ", test.d, ", r ", test.r));
    Head head = RandomHead(&random, test.d, test.r, test.update);
    Rank rank;
    const Samples samples = FactorWindow(head, &rank);
    // What was subtracted is not exactly the head's change: it lost the digits below its base.
    head.delta_q = Sum(Sum(head.q, head.delta_q), head.q, -1);
    head.delta_k = Sum(Sum(head.k, head.delta_k), head.k, -1);
    if (test.d == 1) {
      EXPECT_THAT(samples("attn.delta2.effective_rank"), Near(1));
      EXPECT_FALSE(samples.Has("attn.delta2.entropy_ratio"));
      EXPECT_EQ(samples.Reason("attn.delta2.entropy_ratio"), "single_singular_value");
      continue;
    }
    if (test.r == 1) {
      EXPECT_THAT(samples("attn.delta3.entropy"), Near(0));
      EXPECT_FALSE(samples.Has("attn.delta3.entropy_ratio_l1"));
      continue;
    }
    ExpectHead(samples, head, 0);
    EXPECT_EQ(samples("attn.delta.window_steps"), 50);
  }
}

// Steep spectra, exactly low-rank changes and zero blocks: where Gram matrices lose exponent 1.
TEST(QkFactors, KeepExponentOneOnCollapsedSpectra) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  const size_t d = 48, r = 8;
  for (const std::string name : {"decaying", "rank one", "only q", "only k"}) {
    SCOPED_TRACE(name);
    Head head = RandomHead(&random, d, r, 1e-2);
    const std::vector<double> rank_one = Gaussian(&random, d);
    const std::vector<double> shape = Gaussian(&random, r);
    for (size_t c = 0; c < r; ++c) {
      for (size_t i = 0; i < d; ++i) {
        double& dq = head.delta_q[i + c * d];
        double& dk = head.delta_k[i + c * d];
        if (name == "decaying") dq *= std::pow(10.0, -static_cast<double>(c));
        if (name == "rank one") dq = dk = 1e-2 * rank_one[i] * shape[c];
        if (name == "only q") dk = 0;
        if (name == "only k") dq = 0;
      }
    }
    const model::QkSpectra found = SpectraFromFactors({.q = head.q.data(),
                                                       .k = head.k.data(),
                                                       .delta_q = head.delta_q.data(),
                                                       .delta_k = head.delta_k.data(),
                                                       .d = d,
                                                       .r = r});
    const reference::QkSpectra expected = reference::SpectraOf(head, 24);
    EXPECT_THAT(found.delta2().entropy_l1(), Near(expected.delta2.entropy_l1));
    EXPECT_THAT(found.delta2().entropy(), Near(expected.delta2.entropy));
    EXPECT_TRUE(found.delta2().l1_reliable());
    EXPECT_EQ(found.delta3().defined(), expected.delta3.defined);
    EXPECT_EQ(found.delta_q().defined(), expected.delta_q.defined);
    if (expected.delta3.defined) {
      EXPECT_THAT(found.delta3().entropy_l1(), Near(expected.delta3.entropy_l1));
    }
  }
}

TEST(QkFactors, FirstWindowHasNoBase) {
  Rank rank;
  const Samples samples = rank.SendAndClose(FactorsOf({1, 2}, {3, 4}, 2, 1), 0);
  EXPECT_EQ(samples.Reason("attn.delta2"), "no_base");
  EXPECT_TRUE(samples.step().samples.empty());
}

TEST(QkFactors, IdenticalSnapshotsAreUndefinedNotHealthy) {
  Rank rank;
  rank.SendAndClose(FactorsOf({1, 2, 3, 4}, {3, 4, 5, 7}, 2, 2), 0);
  const Samples samples = rank.SendAndClose(FactorsOf({1, 2, 3, 4}, {3, 4, 5, 7}, 2, 2), 50);
  for (const char* family : {"attn.delta2", "attn.delta3", "attn.delta_q", "attn.delta_k"}) {
    EXPECT_EQ(samples.Reason(family), "zero_update") << family;
  }
  EXPECT_FALSE(samples.Has("attn.delta2.norm"));
  EXPECT_THAT(samples("attn.w_q.norm"), Near(std::sqrt(30.0)));
}

TEST(QkFactors, NonFiniteWeightIsAFindingAndLosesTheBase) {
  Rank rank;
  rank.SendAndClose(FactorsOf({1, 2}, {3, 4}, 2, 1), 0);
  const Samples bad = rank.SendAndClose(FactorsOf({1, NAN}, {3, INFINITY}, 2, 1), 50);
  EXPECT_EQ(bad("train.nonfinite", 0, "qk_factors.q"), 1);
  EXPECT_EQ(bad("train.nonfinite", 0, "qk_factors.k"), 1);
  ASSERT_EQ(bad.step().findings.size(), 2u);
  EXPECT_EQ(bad.step().findings[0].rank, 3u);
  EXPECT_EQ(bad.step().findings[0].head, 0);
  EXPECT_FALSE(bad.Has("attn.delta2.norm"));
  const Samples next = rank.SendAndClose(FactorsOf({1, 2}, {3, 4}, 2, 1), 100);
  EXPECT_EQ(next.Reason("attn.delta2"), "no_base");
}

TEST(QkFactors, StepSentAgainOrGoingBackGivesNoWindow) {
  Rank rank;
  rank.SendAndClose(FactorsOf({1, 2}, {3, 4}, 2, 1), 50);
  EXPECT_EQ(rank.SendAndClose(FactorsOf({9, 9}, {3, 4}, 2, 1), 50).Reason("attn.delta2"),
            "repeated_step");
  EXPECT_EQ(rank.SendAndClose(FactorsOf({1, 3}, {3, 4}, 2, 1), 40).Reason("attn.delta2"),
            "no_base");
  EXPECT_EQ(rank.SendAndClose(FactorsOf({1, 4}, {3, 5}, 2, 1), 45)("attn.delta.window_steps"), 5);
}

TEST(QkFactors, PartOfTheRowsIsRefusedWithAHint) {
  v1::Summary summary = FactorsOf({1, 2}, {3, 4}, 2, 1);
  v1::RowRange* rows = summary.mutable_qk_factors()->mutable_rows();
  rows->set_count(2);
  rows->set_total(4);
  Rank rank;
  EXPECT_THAT(rank.Send(summary, 0), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                       HasSubstr("send qk_gram instead")));
}

TEST(QkFactors, SnapshotMemoryIsBoundedAndSaysSo) {
  Snapshots snapshots({.bytes_max = 40});
  Sender sender;
  model::StreamNames names;
  model::StepShards shards;
  ASSERT_OK(Summarise(FactorsOf({1, 2}, {3, 4}, 2, 1), {.sender = sender, .names = names},
                      &snapshots, &shards));
  EXPECT_EQ(snapshots.bytes(), 32u);  // K and Q, 16 bytes each
  v1::Summary two = FactorsOf({1, 2}, {3, 4}, 2, 1);
  two.mutable_qk_factors()->set_layer(1);
  ASSERT_OK(Summarise(two, {.sender = sender, .names = names}, &snapshots, &shards));
  EXPECT_EQ(snapshots.bytes(), 32u);
  EXPECT_TRUE(std::any_of(shards.undefined().begin(), shards.undefined().end(),
                          [](const auto& u) { return u.reason() == "snapshot_memory"; }));
}

// Four query heads on two key heads, as grouped-query attention and spelled out per head.
TEST(QkLayouts, GroupedHeadsEqualTheSameHeadsSpelledOut) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  const uint32_t d = 24, r = 4;
  const size_t size = size_t{d} * r;
  Rank grouped, spelled;
  Samples a{model::ClosedStep{}}, b{model::ClosedStep{}};
  for (int64_t step : {0, 50}) {
    const std::vector<double> q = Gaussian(&random, 4 * size), k = Gaussian(&random, 2 * size);
    v1::Summary summary;
    v1::QkFactors* factors = summary.mutable_qk_factors();
    for (uint32_t h : {4, 5, 6, 7}) factors->add_heads(h);
    for (uint32_t j : {0, 0, 1, 1}) factors->add_k_index(j);
    *factors->mutable_q()->mutable_dense() = F64Tensor({4, r, d}, q);
    *factors->mutable_k()->mutable_dense() = F64Tensor({2, r, d}, k);
    a = grouped.SendAndClose(summary, step);
    std::vector<double> k4;
    for (size_t j : {0, 0, 1, 1}) {
      k4.insert(k4.end(), k.begin() + static_cast<std::ptrdiff_t>(j * size),
                k.begin() + static_cast<std::ptrdiff_t>((j + 1) * size));
    }
    factors->clear_k_index();
    *factors->mutable_k()->mutable_dense() = F64Tensor({4, r, d}, k4);
    b = spelled.SendAndClose(summary, step);
  }
  ASSERT_FALSE(a.step().samples.empty());
  ASSERT_EQ(a.step().samples.size(), b.step().samples.size());
  for (size_t i = 0; i < a.step().samples.size(); ++i) {
    EXPECT_EQ(a.step().samples[i].series, b.step().samples[i].series);
    EXPECT_EQ(a.step().samples[i].value, b.step().samples[i].value);
  }
}

// up . diag(gain) . down materialised by the daemon and by the client.
TEST(QkLayouts, LowRankProjectionEqualsItsProduct) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  const uint32_t d = 20, r = 3, rank_dim = 6, heads = 2;
  Rank low, dense;
  Samples a{model::ClosedStep{}}, b{model::ClosedStep{}};
  for (int64_t step : {0, 50}) {
    v1::Summary factored, product;
    for (v1::Summary* s : {&factored, &product}) {
      for (uint32_t h = 0; h < heads; ++h) s->mutable_qk_factors()->add_heads(h);
    }
    for (bool is_q : {true, false}) {
      const std::vector<double> down = Gaussian(&random, rank_dim * d);
      const std::vector<double> gain = Gaussian(&random, rank_dim);
      const std::vector<double> up = Gaussian(&random, heads * r * rank_dim);
      std::vector<double> full(heads * r * d);
      for (size_t row = 0; row < heads * r; ++row) {
        for (size_t j = 0; j < rank_dim; ++j) {
          for (size_t c = 0; c < d; ++c) {
            full[row * d + c] += up[row * rank_dim + j] * gain[j] * down[j * d + c];
          }
        }
      }
      v1::QkFactors* f = factored.mutable_qk_factors();
      v1::LowRank* lr = (is_q ? f->mutable_q() : f->mutable_k())->mutable_low_rank();
      *lr->mutable_down() = F64Tensor({rank_dim, d}, down);
      *lr->mutable_gain() = F64Tensor({rank_dim}, gain);
      *lr->mutable_up() = F64Tensor({heads, r, rank_dim}, up);
      v1::QkFactors* p = product.mutable_qk_factors();
      *(is_q ? p->mutable_q() : p->mutable_k())->mutable_dense() = F64Tensor({heads, r, d}, full);
    }
    a = low.SendAndClose(factored, step);
    b = dense.SendAndClose(product, step);
  }
  ASSERT_FALSE(a.step().samples.empty());
  for (size_t i = 0; i < a.step().samples.size(); ++i) {
    EXPECT_THAT(a.step().samples[i].value, Near(b.step().samples[i].value));
  }
}

TEST(QkGram, AgreesWithTheDenseSvdAndTheFactors) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  for (const Case& test : {Case{40, 8, 0.1}, {64, 8, 1e-4}, {64, 8, 1e-6}, {16, 8, 0.1}}) {
    SCOPED_TRACE(absl::StrCat("d ", test.d, ", update ", test.update));
    const Head head = RandomHead(&random, test.d, test.r, test.update);
    Rank rank;
    const Samples samples = rank.SendAndClose(GramOf(head, 0, head.d), 150);
    ExpectHead(samples, head, 5);
    EXPECT_EQ(samples.Flags("attn.delta2.entropy_l1", 5), 0u);
  }
}

TEST(QkGram, ChangeOfOneSideOnly) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  Head head = RandomHead(&random, 40, 8, 1e-2);
  std::fill(head.delta_k.begin(), head.delta_k.end(), 0.0);
  Rank rank;
  const Samples samples = rank.SendAndClose(GramOf(head, 0, head.d), 150);
  const reference::QkSpectra expected = reference::SpectraOf(head, 24);
  EXPECT_THAT(samples("attn.delta2.entropy", 5), Near(expected.delta2.entropy));
  EXPECT_NEAR(samples("attn.delta2.entropy_l1", 5), expected.delta2.entropy_l1, 1e-6);
  EXPECT_EQ(samples.Reason("attn.delta3"), "zero_update");
  EXPECT_EQ(samples.Reason("attn.delta_k"), "zero_update");
}

TEST(QkGram, SinglePrecisionFlagsExponentOneOnly) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  const Head head = RandomHead(&random, 200, 8, 1e-2);
  v1::Summary summary = GramOf(head, 0, head.d, /*single_precision=*/true);
  Rank rank;
  const Samples samples = rank.SendAndClose(summary, 150);
  const reference::QkSpectra expected = reference::SpectraOf(head, 24);
  EXPECT_EQ(samples.Flags("attn.delta2.entropy_ratio_l1", 5), model::kFlagGram32);
  EXPECT_EQ(samples.Flags("attn.delta2.entropy_ratio", 5), 0u);
  EXPECT_THAT(samples("attn.delta2.effective_rank", 5),
              Near9(expected.delta2.effective_rank, 1e-5));
}

TEST(QkGram, RowShardsAddOnceAllRowsAreThere) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  const Head head = RandomHead(&random, 60, 6, 1e-3);
  Rank rank;
  ASSERT_OK(rank.Send(GramOf(head, 0, 20), 150));
  const model::QkShard first = rank.shards().qk(0);
  ASSERT_TRUE(first.has_partial());
  EXPECT_EQ(rank.Close(150).Reason("attn.delta2"), "rows_missing");
  ASSERT_OK(rank.Send(GramOf(head, 20, 40), 150));
  // The merge adds the un-scaled Grams.
  model::QkGramSum* sum = rank.shards().mutable_qk(0)->mutable_partial();
  for (int i = 0; i < sum->gram_a_size(); ++i) {
    sum->set_gram_a(i, sum->gram_a(i) + first.partial().gram_a(i));
    sum->set_gram_b(i, sum->gram_b(i) + first.partial().gram_b(i));
  }
  sum->set_rows_covered(60);
  ExpectHead(rank.Close(150), head, 5);
}

TEST(QkGram, RefusesWhatIsNoBalancedGram) {
  std::mt19937_64 random(kQkSeed);
  const Head head = RandomHead(&random, 20, 2, 1e-3);
  Rank rank;
  v1::Summary summary = GramOf(head, 0, head.d);
  summary.mutable_qk_gram()->set_a(0, 3.0);
  EXPECT_THAT(rank.Send(summary, 1),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("powers of two")));
  summary = GramOf(head, 0, head.d);
  summary.mutable_qk_gram()->set_q(0, NAN);
  EXPECT_THAT(rank.Send(summary, 1),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("powers of two")));
  summary = GramOf(head, 0, head.d);
  *summary.mutable_qk_gram()->mutable_gram_a() = F64Tensor({1, 10}, std::vector<double>(10, -1));
  EXPECT_THAT(rank.Send(summary, 1), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                       HasSubstr("negative diagonal")));
  summary = GramOf(head, 0, head.d);
  summary.mutable_qk_gram()->set_head_dim(3);
  EXPECT_THAT(rank.Send(summary, 1),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not fit")));
  EXPECT_TRUE(rank.shards().qk().empty());
}

TEST(QkGram, WithoutAHiddenSizeTheRankBoundIsUnknown) {
  std::mt19937_64 random(kQkSeed);
  v1::Summary summary = GramOf(RandomHead(&random, 20, 2, 1e-3), 0, 20);
  summary.mutable_qk_gram()->clear_rows();
  Rank rank;
  EXPECT_EQ(rank.SendAndClose(summary, 1).Reason("attn.delta2"), "unknown_shape");
  rank.model().set_hidden_size(20);
  EXPECT_TRUE(rank.SendAndClose(summary, 1).Has("attn.delta2.entropy", 5));
}

// With flat columns the gate is a relative update: 1.7e-2, 2.1e-3 and 2.5e-7.
TEST(GridGate, FlatColumnsGateAtTheKnownRelativeUpdate) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  const struct {
    v1::DType dtype;
    double update;
  } formats[] = {{v1::DTYPE_BF16, 1.7e-2}, {v1::DTYPE_F16, 2.1e-3}, {v1::DTYPE_F32, 2.5e-7}};
  for (const auto& format : formats) {
    for (const double factor : {0.9, 1.1}) {
      SCOPED_TRACE(absl::StrCat(format.update, " x ", factor));
      const Head head = RandomHead(&random, 256, 16, factor * format.update);
      v1::Summary summary = GramOf(head, 0, head.d);
      summary.mutable_qk_gram()->set_weight_dtype(format.dtype);
      Rank rank;
      const Samples samples = rank.SendAndClose(summary, 150);
      const bool gated = factor < 1;
      EXPECT_EQ(samples("attn.delta.grid_ratio", 5) > kGridRatioMax, gated);
      for (const char* id : {"attn.delta2.entropy_ratio_l1", "attn.delta2.norm",
                             "attn.delta3.stable_rank", "attn.delta2.relative_norm"}) {
        EXPECT_EQ(samples.Flags(id, 5) & model::kFlagGrid, gated ? model::kFlagGrid : 0u) << id;
      }
      EXPECT_EQ(samples.Flags("attn.qk.norm", 5), 0u);
      EXPECT_EQ(samples.Flags("attn.delta.grid_ratio", 5), 0u);
    }
  }
}

TEST(GridGate, FollowsItsFormulaAndMastersOpenIt) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  Head head = RandomHead(&random, 64, 8, 1e-3);
  for (size_t c = 0; c < 8; ++c) {  // column norms like 1/i: the trap
    for (size_t i = 0; i < 64; ++i) head.q[i + c * 64] /= static_cast<double>(c + 1);
  }
  v1::Summary summary = GramOf(head, 0, head.d);
  summary.mutable_qk_gram()->set_weight_dtype(v1::DTYPE_BF16);
  Rank rank;
  EXPECT_THAT(rank.SendAndClose(summary, 150)("attn.delta.grid_ratio", 5),
              Near(reference::SpectraOf(head, 8).grid_ratio));
  summary.mutable_qk_gram()->set_fp32_master(true);
  const Samples masters = rank.SendAndClose(summary, 150);
  EXPECT_THAT(masters("attn.delta.grid_ratio", 5), Near(reference::SpectraOf(head, 24).grid_ratio));
  EXPECT_EQ(masters.Flags("attn.delta2.entropy", 5), 0u);
}

// A BF16 window of a real size of update is gated, whatever its spectrum looks like.
TEST(GridGate, Bf16SnapshotsOfSmallUpdatesAreGated) {
  std::cout << "seed " << kQkSeed << "\n";
  std::mt19937_64 random(kQkSeed);
  const Head head = RandomHead(&random, 128, 8, 1e-3);
  const auto payload = [&](double of_change) {
    v1::Summary summary;
    summary.mutable_qk_factors()->add_heads(0);
    *summary.mutable_qk_factors()->mutable_q()->mutable_dense() =
        Bf16Tensor({1, 8, 128}, Sum(head.q, head.delta_q, of_change));
    *summary.mutable_qk_factors()->mutable_k()->mutable_dense() =
        Bf16Tensor({1, 8, 128}, Sum(head.k, head.delta_k, of_change));
    return summary;
  };
  Rank rank;
  rank.SendAndClose(payload(0), 0);
  const Samples samples = rank.SendAndClose(payload(1), 50);
  EXPECT_GT(samples("attn.delta.grid_ratio"), kGridRatioMax);
  EXPECT_EQ(samples.Flags("attn.delta2.entropy_ratio"), model::kFlagGrid);
  EXPECT_EQ(samples.Flags("attn.delta_q.entropy_ratio"), model::kFlagGrid);
}

}  // namespace
}  // namespace foreshock::indicators
