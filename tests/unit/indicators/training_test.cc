// Scalars, history, tensor statistics, policy mismatch, attention logits and finish as a whole.
#include <cmath>
#include <random>
#include <vector>

#include "daemon/base/archive.h"
#include "daemon/base/stable_hash.h"
#include "daemon/model/catalogue.h"
#include "tests/reference/router_reference.h"
#include "tests/reference/spectrum_reference.h"
#include "tests/unit/indicators/harness.h"

namespace foreshock::indicators {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kTrainingSeed = 77;

struct Scalar {
  std::string name;
  double value;
  v1::Reduction reduction = v1::REDUCTION_LAST;
  v1::Scope scope = v1::SCOPE_GLOBAL;
  double weight = 1;
};

v1::Summary Scalars(Rank* rank, const std::vector<Scalar>& scalars) {
  v1::Summary summary;
  for (const Scalar& scalar : scalars) {
    uint32_t id = 1;
    while (rank->names().scalars.contains(id) && rank->names().scalars[id].name() != scalar.name) {
      ++id;
    }
    v1::ScalarDeclaration& declared = rank->names().scalars[id];
    declared.set_id(id);
    declared.set_name(scalar.name);
    declared.set_reduction(scalar.reduction);
    declared.set_scope(scalar.scope);
    summary.mutable_scalars()->add_ids(id);
    summary.mutable_scalars()->add_values(scalar.value);
    summary.mutable_scalars()->add_weights(scalar.weight);
  }
  return summary;
}

model::ScalarShard Shard(uint32_t rank, double value, v1::Reduction reduction, double weight = 1) {
  model::ScalarShard shard;
  shard.set_name("x");
  shard.set_scope(v1::SCOPE_GLOBAL);
  shard.set_reduction(reduction);
  shard.set_rank(rank);
  shard.set_value(value);
  shard.set_weight(weight);
  return shard;
}

TEST(Scalars, ReduceOverRanks) {
  const struct {
    v1::Reduction reduction;
    double expected;
  } cases[] = {{v1::REDUCTION_LAST, 5},
               {v1::REDUCTION_SUM, 10},
               {v1::REDUCTION_MEAN, 2.5},
               {v1::REDUCTION_MAX, 5},
               {v1::REDUCTION_MIN, 2}};
  for (const auto& test : cases) {
    Rank rank;
    *rank.shards().add_scalars() = Shard(9, 2, test.reduction, 3);
    *rank.shards().add_scalars() = Shard(4, 5, test.reduction, 1);  // lowest rank
    *rank.shards().add_scalars() = Shard(6, 3, test.reduction, 0);
    if (test.reduction == v1::REDUCTION_MEAN) {
      EXPECT_THAT(rank.Close(0)("train.x"), Near((2 * 3 + 5) / 4.0));
    } else {
      EXPECT_THAT(rank.Close(0)("train.x"), Near(test.expected));
    }
  }
  Rank rank;
  *rank.shards().add_scalars() = Shard(9, 2, v1::REDUCTION_MEAN, 0);
  EXPECT_EQ(rank.Close(0).Reason("train.x"), "zero_weight");
}

TEST(Scalars, RankScopeIsOneSeriesPerRank) {
  Rank rank;
  const Samples samples = rank.SendAndClose(
      Scalars(&rank, {{"rank_loss", 2.5, v1::REDUCTION_LAST, v1::SCOPE_RANK}}), 0);
  const model::Sample* sample = samples.Find("train.rank_loss", 3);
  ASSERT_NE(sample, nullptr);
  EXPECT_EQ(sample->series.unit, model::Unit::kRank);
  EXPECT_EQ(sample->value, 2.5);
}

TEST(Scalars, NonFiniteIsAFindingWithItsRankAndNoPoint) {
  Rank rank;
  const Samples samples =
      rank.SendAndClose(Scalars(&rank, {{"loss", NAN}, {"lr", 1e-3}, {"grad_norm", INFINITY}}), 4);
  EXPECT_FALSE(samples.Has("train.loss"));
  EXPECT_EQ(samples("train.lr"), 1e-3);
  EXPECT_EQ(samples("train.nonfinite", 0, "loss"), 1);
  EXPECT_EQ(samples("train.nonfinite", 0, "grad_norm"), 1);
  ASSERT_EQ(samples.step().findings.size(), 2u);
  EXPECT_EQ(samples.step().findings[0].rank, 3u);
  EXPECT_EQ(samples.step().findings[0].name, "loss");
}

TEST(Scalars, UndeclaredIdIsRefusedAndNothingAdded) {
  Rank rank;
  v1::Summary summary = Scalars(&rank, {{"loss", 1}});
  summary.mutable_scalars()->add_ids(99);
  summary.mutable_scalars()->add_values(1);
  EXPECT_THAT(rank.Send(summary, 0),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("99")));
  EXPECT_TRUE(rank.shards().scalars().empty());
}

TEST(Scalars, DerivedRatios) {
  Rank rank;
  const Samples samples = rank.SendAndClose(
      Scalars(&rank, {{"update_rms", 2e-6}, {"param_rms", 2e-3}, {"lr", 1e-3}}), 0);
  EXPECT_THAT(samples("train.update_ratio"), Near(1e-3));
  EXPECT_THAT(samples("train.update_per_lr"), Near(2e-3));
  const Samples zero =
      rank.SendAndClose(Scalars(&rank, {{"update_rms", 2e-6}, {"param_rms", 0}, {"lr", 0}}), 1);
  EXPECT_EQ(zero.Reason("train.update_ratio"), "zero_denominator");
  EXPECT_EQ(zero.Reason("train.update_per_lr"), "zero_denominator");
}

TEST(Scalars, TokensAreTotalled) {
  Rank rank;
  rank.shards().set_tokens(4096);
  EXPECT_EQ(rank.Close(0)("train.tokens_total"), 4096);
  EXPECT_FALSE(rank.Close(1).Has("train.tokens_total"));
}

TEST(StepTime, IsWallTimeOverTheStepsBetween) {
  Rank rank;
  constexpr int64_t kStart = 1'800'000'000'000'000'000;
  constexpr int64_t kMs = 1'000'000;
  const struct {
    int64_t step;
    int64_t time_unix_ns;
    std::optional<double> seconds;
    std::string reason;
  } kCases[] = {
      {0, kStart, std::nullopt, "no_base"},
      {1, kStart + 250 * kMs, 0.25, ""},
      {5, kStart + 1250 * kMs, 0.25, ""},  // four steps in a second
      {6, 0, std::nullopt, "no_time"},
      {7, kStart + 2250 * kMs, 0.5, ""},  // since step 5
      {8, kStart + 2000 * kMs, std::nullopt, "clock_back"},
      {9, kStart + 2100 * kMs, 0.1, ""},
      {10, kStart + 2100 * kMs, std::nullopt, "clock_back"},
      {11, INT64_MIN, std::nullopt, "clock_back"},
      {12, INT64_MAX, 1.8446744073709552e10, ""},
  };
  for (const auto& test : kCases) {
    model::StepRow row;
    row.time_unix_ns = test.time_unix_ns;
    const Samples samples = rank.Close(test.step, /*eval=*/false, row);
    EXPECT_EQ(samples.Has("train.step_seconds"), test.seconds.has_value()) << test.step;
    EXPECT_EQ(samples.Reason("train.step_seconds"), test.reason) << test.step;
    if (test.seconds.has_value()) {
      EXPECT_THAT(samples("train.step_seconds"), Near(*test.seconds)) << test.step;
    }
  }
}

TEST(StepTime, EvaluationAndLateShardsHaveNone) {
  Rank rank;
  model::StepRow row;
  row.time_unix_ns = 1'000'000'000;
  rank.Close(0, /*eval=*/false, row);
  row.time_unix_ns = 2'000'000'000;
  EXPECT_FALSE(rank.Close(1, /*eval=*/true, row).Has("eval.train.step_seconds"));
  row.late = true;
  EXPECT_FALSE(rank.Close(1, /*eval=*/false, row).Has("train.step_seconds"));
  row.late = false;
  EXPECT_EQ(rank.Close(1, /*eval=*/false, row)("train.step_seconds"), 1);
}

TEST(Spikes, ScoreNeedsTwentyPointsAndFollowsItsFormula) {
  Rank rank;
  for (int64_t step = 0; step < 20; ++step) {
    const Samples samples = rank.SendAndClose(
        Scalars(&rank, {{"grad_norm", 1 + 0.125 * static_cast<double>(step % 2)}}), step);
    EXPECT_EQ(samples.Reason("train.grad_norm.spike_score"), "warming_up") << step;
  }
  // Median 1.0625, MAD 0.0625: 6 * 1.4826 * 0.0625 = 0.555975. All of them float32, as stored.
  const Samples samples = rank.SendAndClose(Scalars(&rank, {{"grad_norm", 3}}), 20);
  EXPECT_THAT(samples("train.grad_norm.spike_score"), Near((3 - 1.0625) / 0.555975));
}

TEST(Spikes, LossIsSmoothedAndTheSpreadHasAFloor) {
  Rank rank;
  double score = 0;
  for (int64_t step = 0; step < 40; ++step) {
    const double loss = step == 30 ? 50 : (step >= 34 ? 3.0 : 2.0);
    const Samples samples = rank.SendAndClose(Scalars(&rank, {{"loss", loss}}), step);
    if (step >= 20) score = samples("train.loss.spike_score");
    if (step == 30) {
      EXPECT_EQ(score, 0);  // one step does not move a median of 5
    } else if (step == 36) {
      EXPECT_THAT(score, Near(1 / (0.05 * 2)));  // three do; MAD 0: 5 % of the median
    }
  }
}

TEST(Spikes, RateCountsOnsetsPerThousandSteps) {
  History history;
  for (int64_t step = 0; step < 2000; ++step) {
    const bool spike = step >= 500 && step % 250 < 5;
    history.ObserveScalar("loss", step, spike ? 10 : 2 + 0.01 * static_cast<double>(step % 3));
    if (step < 119) {
      EXPECT_FALSE(history.SpikeRate().has_value()) << step;
    }
  }
  ASSERT_TRUE(history.SpikeRate().has_value());
  EXPECT_THAT(*history.SpikeRate(), Near(4));
}

TEST(History, IsRebuiltFromStoredPoints) {
  History live, rebuilt;
  std::mt19937_64 random(kTrainingSeed);
  for (int64_t step = 0; step < 60; ++step) {
    const double loss = std::normal_distribution<double>(2, 0.1)(random);
    live.ObserveScalar("loss", step, loss);
    if (step >= 30) rebuilt.ObserveScalar("loss", step, loss);
  }
  ASSERT_TRUE(rebuilt.SpikeScore("loss").has_value());
  EXPECT_EQ(*live.SpikeScore("loss"), *rebuilt.SpikeScore("loss"));
  live.ObserveScalar("loss", 59, 1e9);  // not a new step
  EXPECT_EQ(*live.SpikeScore("loss"), *rebuilt.SpikeScore("loss"));
}

// Losses with spikes, gradients and loads of two layers, of 250 steps from `first` on.
void ObserveKnown(int64_t first, History* history) {
  for (int64_t step = first; step < first + 250; ++step) {
    history->ObserveTime(step, 1'000'000'000 * (step + 1));
    history->ObserveScalar("loss", step,
                           step % 100 < 3 ? 3 : 2 + 0.25 * static_cast<double>(step % 3));
    history->ObserveScalar("grad_norm", step, 1 + 0.5 * static_cast<double>(step % 4));
    for (const uint32_t layer : {0u, 1u}) {
      history->ObserveLoad(layer, step, {4.0, 2.0, 2.0, step < 100 + layer ? 8.0 : 0.0});
    }
  }
}

std::string BytesOf(History* history) {
  base::Archive archive;
  archive.Take(history);
  return archive.bytes();
}

TEST(History, GoesOnFromItsBytes) {
  History straight;
  ObserveKnown(0, &straight);
  History recalled;
  const std::string bytes = BytesOf(&straight);
  base::Archive reader(bytes);
  reader.Take(&recalled);
  EXPECT_TRUE(reader.AtEnd());
  ObserveKnown(250, &straight);
  ObserveKnown(250, &recalled);
  EXPECT_EQ(straight.SpikeScore("loss"), recalled.SpikeScore("loss"));
  EXPECT_EQ(straight.SpikeRate(), recalled.SpikeRate());
  EXPECT_EQ(straight.DeadFraction(1), recalled.DeadFraction(1));
  EXPECT_EQ(straight.DeadFraction(1), 0.25);
  EXPECT_EQ(straight.LastStepSeconds().value, recalled.LastStepSeconds().value);
  EXPECT_TRUE(BytesOf(&straight) == BytesOf(&recalled));
}

// Other bytes here mean another form: raise kHistoryVersion (daemon/pipeline/recovery.cc).
TEST(History, TheFormOfItsBytesHasAVersion) {
  History history;
  ObserveKnown(0, &history);
  EXPECT_EQ(base::StableHash(BytesOf(&history)), 15528679938402374909u);
}

TEST(History, StepsWeighTheSameWhateverTheirCounts) {
  History counts;
  History shares;
  for (int64_t step = 0; step < 230; ++step) {
    const double scale = step < 200 ? 1 : 1000;
    counts.ObserveLoad(0, step, {scale, step < 200 ? scale : 0});
    shares.ObserveLoad(0, step, {step < 200 ? 1.0 : 2.0, step < 200 ? 1.0 : 0.0});
  }
  EXPECT_EQ(counts.DeadFraction(0), 0.0);
  EXPECT_EQ(shares.DeadFraction(0), 0.0);
}

TEST(TensorStats, ShardsAreWeightedByTheirElements) {
  Rank rank;
  v1::TensorDeclaration& declared = rank.names().tensors[1];
  declared.set_name("act/mlp");
  declared.set_layer(4);
  std::vector<double> all;
  v1::Summary summary;
  for (const std::vector<double>& part : {std::vector<double>{1, -3}, {2, 2, 5}}) {
    v1::TensorStats* stats = summary.mutable_tensor_stats()->add_stats();
    stats->set_id(1);
    stats->set_count(part.size());
    double sum = 0, square = 0;
    for (double x : part) {
      sum += x;
      square += x * x;
      all.push_back(x);
    }
    stats->set_min(*std::min_element(part.begin(), part.end()));
    stats->set_max(*std::max_element(part.begin(), part.end()));
    stats->set_mean(sum / static_cast<double>(part.size()));
    stats->set_rms(std::sqrt(square / static_cast<double>(part.size())));
    stats->set_nan_count(1);
    stats->set_input_rms(2);
  }
  const Samples samples = rank.SendAndClose(summary, 0);
  const double rms = std::sqrt((1 + 9 + 4 + 4 + 25) / 5.0);
  EXPECT_THAT(samples("tensor.rms", 0, "act/mlp"), Near(rms));
  EXPECT_THAT(samples("tensor.mean", 0, "act/mlp"), Near(7 / 5.0));
  EXPECT_THAT(samples("tensor.std", 0, "act/mlp"), Near(std::sqrt(rms * rms - 49 / 25.0)));
  EXPECT_THAT(samples("tensor.absmax", 0, "act/mlp"), Near(5));
  EXPECT_THAT(samples("tensor.peak_ratio", 0, "act/mlp"), Near(5 / rms));
  EXPECT_THAT(samples("tensor.gain", 0, "act/mlp"), Near(rms / 2));
  EXPECT_THAT(samples("tensor.nonfinite", 0, "act/mlp"), Near(2));
  EXPECT_EQ(samples.Find("tensor.rms")->series.layer, 4);
  EXPECT_EQ(samples("train.nonfinite", 0, "act/mlp"), 2);
}

TEST(TensorStats, UpdateRatioAndRefusals) {
  Rank rank;
  rank.names().tensors[1].set_name("param/w");
  rank.names().tensors[2].set_name("update/w");
  v1::Summary summary;
  for (uint32_t id : {1u, 2u}) {
    v1::TensorStats* stats = summary.mutable_tensor_stats()->add_stats();
    stats->set_id(id);
    stats->set_count(1);
    stats->set_max(1);
    stats->set_rms(id == 1 ? 2 : 0.5);
  }
  EXPECT_THAT(rank.SendAndClose(summary, 0)("tensor.update_ratio", 0, "w"), Near(0.25));
  summary.mutable_tensor_stats()->mutable_stats(0)->set_mean(3);
  EXPECT_THAT(rank.Send(summary, 1),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("|mean| <= rms")));
  summary.mutable_tensor_stats()->mutable_stats(0)->set_mean(NAN);
  const Samples bad = rank.SendAndClose(summary, 2);
  EXPECT_EQ(bad("train.nonfinite", 0, "param/w"), 1);
  EXPECT_FALSE(bad.Has("tensor.update_ratio"));
}

TEST(PolicyMismatch, AgreesWithTheObviousVersion) {
  std::cout << "seed " << kTrainingSeed << "\n";
  std::mt19937_64 random(kTrainingSeed);
  std::vector<double> trainer, rollout, weights;
  for (int i = 0; i < 500; ++i) {
    rollout.push_back(-std::exponential_distribution<double>(1)(random));
    trainer.push_back(
        std::min(0.0, rollout.back() + std::normal_distribution<double>(0, 0.4)(random)));
    weights.push_back(std::uniform_real_distribution<double>(0.5, 2)(random));
  }
  trainer[0] = rollout[0] - 30;  // clamped
  v1::Summary summary;
  v1::PolicyMismatch* policy = summary.mutable_policy_mismatch();
  *policy->mutable_trainer_logprobs() = F64Tensor({500}, trainer);
  *policy->mutable_rollout_logprobs() = F64Tensor({500}, rollout);
  *policy->mutable_weights() = F64Tensor({500}, weights);
  policy->set_routes_compared(200);
  policy->set_routes_mismatched(5);
  policy->set_tokens_compared(100);
  policy->set_tokens_mismatched(4);
  Rank rank;
  const Samples samples = rank.SendAndClose(summary, 0);
  const reference::PolicyStatistics expected = reference::Policy(trainer, rollout, weights);
  EXPECT_THAT(samples("rl.k1"), Near(expected.k1));
  EXPECT_THAT(samples("rl.k3"), Near(expected.k3));
  EXPECT_THAT(samples("rl.ratio_tail"), Near(expected.tail));
  EXPECT_THAT(samples("rl.ratio_mean"), Near(expected.ratio_mean));
  EXPECT_THAT(samples("rl.ratio_std"), Near(expected.ratio_std));
  EXPECT_THAT(samples("rl.ess"), Near(expected.ess));
  EXPECT_THAT(samples("rl.chi2"), Near(expected.chi2));
  EXPECT_THAT(samples("rl.pearson"), Near(expected.pearson));
  EXPECT_EQ(samples("rl.clamped"), 1);
  EXPECT_THAT(samples("rl.route_mismatch"), Near(0.025));
  EXPECT_THAT(samples("rl.route_mismatch_any"), Near(0.04));
}

TEST(PolicyMismatch, EqualPoliciesAndEmptyPayloads) {
  v1::Summary summary;
  v1::PolicyMismatch* policy = summary.mutable_policy_mismatch();
  *policy->mutable_trainer_logprobs() = F64Tensor({2}, {-0.1, -0.1});
  *policy->mutable_rollout_logprobs() = F64Tensor({2}, {-0.1, -0.1});
  Rank rank;
  const Samples equal = rank.SendAndClose(summary, 0);
  EXPECT_EQ(equal("rl.k3"), 0);
  EXPECT_EQ(equal("rl.ess"), 1);
  EXPECT_EQ(equal.Reason("rl.pearson"), "zero_variance");
  EXPECT_FALSE(equal.Has("rl.route_mismatch"));
  *policy->mutable_trainer_logprobs() = F64Tensor({2}, {NAN, -INFINITY});
  const Samples bad = rank.SendAndClose(summary, 1);
  EXPECT_EQ(bad("train.nonfinite", 0, "policy_mismatch.trainer_logprobs"), 2);
  EXPECT_EQ(bad.Reason("rl"), "no_pairs");
  *policy->mutable_trainer_logprobs() = F64Tensor({2}, {-0.1, 0.5});
  EXPECT_THAT(rank.Send(summary, 2),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("above 0")));
}

// k3 of tiny differences is delta^2 / 2, far below what e^x - x - 1 leaves.
TEST(PolicyMismatch, TinyDifferencesKeepTheirAccuracy) {
  for (double delta : {1e-9, 1e-5, 1e-2, 0.0999, 0.1001}) {
    v1::Summary summary;
    *summary.mutable_policy_mismatch()->mutable_trainer_logprobs() = F64Tensor({1}, {-1});
    *summary.mutable_policy_mismatch()->mutable_rollout_logprobs() = F64Tensor({1}, {-1 - delta});
    Rank rank;
    const double x = -1.0 - (-1 - delta);
    double term = x * x / 2, sum = 0;
    for (int n = 3; n < 30; ++n) {
      sum += term;
      term *= x / n;
    }
    EXPECT_THAT(rank.SendAndClose(summary, 0)("rl.k3"), Near(sum)) << delta;
  }
}

TEST(AttentionLogits, RowsMaximaSinkAndRank) {
  const double x = -INFINITY;
  v1::Summary summary;
  v1::AttentionLogits* logits = summary.mutable_attention_logits();
  logits->set_layer(1);
  logits->add_heads(2);
  logits->add_heads(3);
  *logits->mutable_logits() = F64Tensor({2, 2, 3}, {2, 1, x, 0, 0, 3, 5, 0, x, 5, x, x});
  logits->set_columns_complete(true);
  logits->set_column_zero_is_first(true);
  Rank rank;
  const Samples samples = rank.SendAndClose(summary, 0);
  const auto entropy = [](std::vector<double> z) {
    double sum = 0, h = 0;
    for (double v : z) sum += std::exp(v);
    for (double v : z) h -= std::exp(v) / sum * std::log(std::exp(v) / sum);
    return h;
  };
  EXPECT_THAT(samples("attn.logits.entropy", 2), Near((entropy({2, 1}) + entropy({0, 0, 3})) / 2));
  EXPECT_THAT(samples("attn.logits.entropy_ratio", 2),
              Near((entropy({2, 1}) / std::log(2) + entropy({0, 0, 3}) / std::log(3)) / 2));
  EXPECT_THAT(samples("attn.logits.entropy", 3), Near(entropy({5, 0})));  // row 2 is skipped
  EXPECT_EQ(samples("attn.logits.max", 2), 3);
  EXPECT_EQ(samples.Flags("attn.logits.max", 2), model::kFlagSampled);
  EXPECT_EQ(samples.Flags("attn.logits.entropy", 2), 0u);
  const double top = (1 / (1 + std::exp(-1)) + 1 / (1 + 2 * std::exp(-3))) / 2;
  EXPECT_THAT(samples("attn.logits.top_probability", 2), Near(top));
  // Head 2 puts 0.73 and 0.05 on column 0, head 3 0.99: both above 0.3 on average.
  EXPECT_EQ(samples("attn.logits.sink_fraction"), 1);
  // Columns 0 and 1 are open in both rows of head 2, only column 0 in head 3.
  EXPECT_THAT(samples("attn.logits.effective_rank", 2),
              Near(reference::SpectrumOf({2, 0, 1, 0}, 2, 2).effective_rank));
  EXPECT_FALSE(samples.Has("attn.logits.effective_rank", 3));
}

TEST(AttentionLogits, ExactMaximaAndBadValues) {
  v1::Summary summary;
  v1::AttentionLogits* logits = summary.mutable_attention_logits();
  for (uint32_t head : {0u, 1u}) logits->add_heads(head);
  *logits->mutable_max_logit() = F64Tensor({2}, {70, 4});
  Rank rank;
  const Samples only = rank.SendAndClose(summary, 0);
  EXPECT_EQ(only("attn.logits.max", 0), 70);
  EXPECT_EQ(only.Flags("attn.logits.max", 0), 0u);
  EXPECT_FALSE(only.Has("attn.logits.entropy", 0));
  *logits->mutable_logits() = F64Tensor({2, 1, 2}, {1, INFINITY, 1, 2});
  const Samples bad = rank.SendAndClose(summary, 1);
  EXPECT_EQ(bad("train.nonfinite", 0, "attention_logits.logits"), 1);
  EXPECT_FALSE(bad.Has("attn.logits.entropy", 0));
  EXPECT_TRUE(bad.Has("attn.logits.entropy", 1));
  EXPECT_EQ(bad("attn.logits.max", 0), 70);
  EXPECT_EQ(bad.Flags("attn.logits.entropy", 1), model::kFlagSampled);
  logits->clear_max_logit();
  *logits->mutable_logits() = F64Tensor({2, 1, 2}, {-INFINITY, -INFINITY, -INFINITY, -INFINITY});
  EXPECT_EQ(rank.SendAndClose(summary, 2).Reason("attn.logits.max"), "empty_block");
}

// Bytes that do not fit the shape never reach the arithmetic, even if ingest had let them pass.
TEST(Summarise, RefusesTensorsWhoseBytesDoNotFitTheirShape) {
  const v1::Tensor cut = [] {
    v1::Tensor tensor = F64Tensor({1, 2, 2}, {1, 2, 3, 4});
    tensor.mutable_data()->pop_back();
    return tensor;
  }();
  v1::Tensor flat = cut;
  flat.clear_shape();
  flat.add_shape(2);
  flat.add_shape(2);
  v1::Summary qk, gates, weights, logits;
  qk.mutable_qk_factors()->add_heads(0);
  *qk.mutable_qk_factors()->mutable_q()->mutable_dense() = cut;
  *qk.mutable_qk_factors()->mutable_k()->mutable_dense() = cut;
  *gates.mutable_router_gates()->mutable_scores() = flat;
  *weights.mutable_router_weights()->mutable_weights() = flat;
  logits.mutable_attention_logits()->add_heads(0);
  *logits.mutable_attention_logits()->mutable_logits() = cut;
  Rank rank;
  for (const v1::Summary* summary : {&qk, &gates, &weights, &logits}) {
    EXPECT_THAT(rank.Send(*summary, 0),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
  }
  v1::Summary empty;
  EXPECT_OK(rank.Send(empty, 0));
  empty.mutable_event();
  EXPECT_OK(rank.Send(empty, 0));
  EXPECT_EQ(rank.shards().ByteSizeLong(), 0u);
}

TEST(Finish, SortsFlagsAndNamesOnlyWhatTheCatalogueKnows) {
  Rank rank;
  ASSERT_OK(rank.Send(Scalars(&rank, {{"loss", 1}, {"aux_loss", 2}, {"loss", 1}}), 0));
  v1::Summary gates;
  *gates.mutable_router_gates()->mutable_scores() = F64Tensor({1, 3}, {1, 2, 3});
  gates.mutable_router_gates()->set_score_kind(v1::SCORE_KIND_SOFTMAX_LOGITS);
  gates.mutable_router_gates()->set_top_k(1);
  ASSERT_OK(rank.Send(gates, 0));
  model::StepRow row;
  row.partial = true;
  const Samples samples = rank.Close(0, false, row);
  ASSERT_GT(samples.step().samples.size(), 10u);
  for (size_t i = 0; i < samples.step().samples.size(); ++i) {
    const model::Sample& sample = samples.step().samples[i];
    EXPECT_TRUE(model::IsKnownIndicator(sample.series.indicator)) << sample.series.indicator;
    EXPECT_TRUE(sample.flags & model::kFlagPartial);
    if (const model::IndicatorInfo* info = model::FindIndicator(sample.series.indicator)) {
      EXPECT_EQ(info->unit, sample.series.unit) << info->id;
      EXPECT_EQ(info->per_layer, sample.series.layer != model::kNoLayer) << info->id;
    }
    if (i > 0) {
      EXPECT_LT(samples.step().samples[i - 1].series, sample.series);
    }
  }
}

TEST(Finish, EvaluationIsStoredApartAndLeavesTheHistoryAlone) {
  Rank rank;
  for (int64_t step = 0; step < 30; ++step) {
    rank.SendAndClose(Scalars(&rank, {{"loss", 2}}), step);
  }
  ASSERT_OK(rank.Send(Scalars(&rank, {{"loss", 9}, {"nan", NAN}}), 30));
  const Samples eval = rank.Close(30, /*eval=*/true);
  EXPECT_EQ(eval("eval.train.loss"), 9);
  EXPECT_EQ(eval.Flags("eval.train.loss"), model::kFlagEval);
  EXPECT_EQ(eval("eval.train.nonfinite", 0, "nan"), 1);
  EXPECT_FALSE(eval.Has("train.loss"));
  EXPECT_FALSE(eval.Has("eval.train.loss.spike_score"));
  EXPECT_TRUE(rank.SendAndClose(Scalars(&rank, {{"loss", 2}}), 30).Has("train.loss.spike_score"));
}

TEST(Finish, LateShardsDoNotTouchTheHistory) {
  Rank rank;
  model::StepRow late;
  late.late = true;
  ASSERT_OK(rank.Send(Scalars(&rank, {{"loss", 2}}), 5));
  const Samples samples = rank.Close(5, false, late);
  EXPECT_EQ(samples.Flags("train.loss"), model::kFlagLate);
  EXPECT_EQ(samples.Reason("train.loss.spike_score"), "");
}

TEST(Finish, ValuesBeyondDoubleAreUndefinedNotInfinite) {
  Rank rank;
  *rank.shards().add_scalars() = Shard(0, 1e308, v1::REDUCTION_SUM);
  *rank.shards().add_scalars() = Shard(1, 1e308, v1::REDUCTION_SUM);
  const Samples samples = rank.Close(0);
  EXPECT_FALSE(samples.Has("train.x"));
  EXPECT_EQ(samples.Reason("train.x"), "out_of_range");
}

}  // namespace
}  // namespace foreshock::indicators
