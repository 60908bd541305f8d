#include "daemon/merge/step_merger.h"

#include "daemon/model/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::merge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

model::ShardReport LoadReport(uint32_t rank, uint64_t token_shard, std::vector<int64_t> counts,
                              uint64_t fingerprint = 0) {
  model::ShardReport report;
  report.set_rank(rank);
  model::LoadShard* load = report.mutable_shards()->add_load();
  load->set_layer(1);
  model::Source* source = load->add_sources();
  source->set_id(token_shard);
  source->set_fingerprint(fingerprint != 0 ? fingerprint : token_shard + 100);
  for (int64_t count : counts) load->add_counts(count);
  return report;
}

TEST(StepMergerTest, AddsLoadOverDistinctTokenShards) {
  StepMerger merger;
  merger.Add(LoadReport(0, 0, {1, 2, 3}));
  merger.Add(LoadReport(2, 1, {10, 20, 30}));
  ASSERT_EQ(merger.train().load_size(), 1);
  EXPECT_THAT(merger.train().load(0).counts(), ElementsAre(11, 22, 33));
  EXPECT_EQ(merger.ranks(), 2u);
}

TEST(StepMergerTest, CountsAReplicaOnceWithoutAFinding) {
  StepMerger merger;
  merger.Add(LoadReport(0, 0, {1, 2, 3}));
  merger.Add(LoadReport(1, 0, {1, 2, 3}));
  EXPECT_THAT(merger.train().load(0).counts(), ElementsAre(1, 2, 3));
  EXPECT_THAT(merger.train().findings(), IsEmpty());
}

TEST(StepMergerTest, ReportsReplicasThatDisagreeAndKeepsTheFirst) {
  StepMerger merger;
  merger.Add(LoadReport(0, 0, {1, 2, 3}, 7));
  merger.Add(LoadReport(1, 0, {1, 2, 4}, 8));
  EXPECT_THAT(merger.train().load(0).counts(), ElementsAre(1, 2, 3));
  ASSERT_EQ(merger.train().findings_size(), 1);
  const model::FindingShard& finding = merger.train().findings(0);
  EXPECT_EQ(finding.kind(), static_cast<uint32_t>(model::Finding::Kind::kReplicaMismatch));
  EXPECT_EQ(finding.name(), "router_load");
  EXPECT_EQ(finding.rank(), 1u);
  EXPECT_EQ(finding.layer(), 1);
}

TEST(StepMergerTest, ExpertRangesStayApart) {
  StepMerger merger;
  model::ShardReport upper = LoadReport(1, 0, {4, 5});
  upper.mutable_shards()->mutable_load(0)->set_expert_offset(2);
  merger.Add(LoadReport(0, 0, {1, 2}));
  merger.Add(upper);
  EXPECT_EQ(merger.train().load_size(), 2);
}

TEST(StepMergerTest, ForgetsDroppedCountsThatOneShardDoesNotKnow) {
  StepMerger merger;
  model::ShardReport with = LoadReport(0, 0, {1, 2});
  with.mutable_shards()->mutable_load(0)->add_dropped(0);
  with.mutable_shards()->mutable_load(0)->add_dropped(1);
  merger.Add(with);
  merger.Add(LoadReport(1, 1, {1, 2}));
  EXPECT_THAT(merger.train().load(0).dropped(), IsEmpty());
  EXPECT_THAT(merger.train().load(0).counts(), ElementsAre(2, 4));
}

TEST(StepMergerTest, SumsTokensOverDataShardsOnce) {
  StepMerger merger;
  for (uint32_t rank : {0u, 1u, 2u}) {
    model::ShardReport report;
    report.set_rank(rank);
    report.mutable_shards()->set_tokens(100 + rank / 2);
    report.mutable_shards()->add_token_sources()->set_id(rank / 2);  // 0 and 1 share their tokens
    merger.Add(report);
  }
  EXPECT_EQ(merger.tokens(), 201u);
}

TEST(StepMergerTest, KeepsOneScalarPerRankAndNameAndTheFirstOfRepeats) {
  StepMerger merger;
  for (double value : {1.0, 2.0}) {
    model::ShardReport report;
    report.set_rank(3);
    model::ScalarShard* scalar = report.mutable_shards()->add_scalars();
    scalar->set_name("loss");
    scalar->set_scope(v1::SCOPE_GLOBAL);
    scalar->set_rank(3);
    scalar->set_value(value);
    merger.Add(report);
  }
  ASSERT_EQ(merger.train().scalars_size(), 1);
  EXPECT_EQ(merger.train().scalars(0).value(), 1.0);
}

TEST(StepMergerTest, MergesMarginSketches) {
  const auto report = [](uint32_t rank, std::vector<std::pair<int, uint64_t>> bins) {
    model::ShardReport r;
    r.set_rank(rank);
    model::GateShard* gate = r.mutable_shards()->add_gates();
    gate->add_sources()->set_id(rank);
    gate->set_tokens(1);
    gate->set_margin_count(1);
    gate->set_margin_min(0.5 - rank * 0.1);
    for (auto [bin, count] : bins) {
      gate->add_margin_bin(bin);
      gate->add_margin_bin_count(count);
    }
    return r;
  };
  StepMerger merger;
  merger.Add(report(0, {{-3, 1}, {2, 5}}));
  merger.Add(report(1, {{-5, 2}, {-3, 4}, {9, 1}}));
  const model::GateShard& gate = merger.train().gates(0);
  EXPECT_THAT(gate.margin_bin(), ElementsAre(-5, -3, 2, 9));
  EXPECT_THAT(gate.margin_bin_count(), ElementsAre(2, 5, 5, 1));
  EXPECT_DOUBLE_EQ(gate.margin_min(), 0.4);
}

TEST(StepMergerTest, AddsGramsOfDisjointRowsAndCountsThem) {
  const auto report = [](uint32_t rank, uint64_t rows_id, uint32_t rows) {
    model::ShardReport r;
    r.set_rank(rank);
    model::QkShard* qk = r.mutable_shards()->add_qk();
    qk->add_sources()->set_id(rows_id);
    model::QkGramSum* sum = qk->mutable_partial();
    sum->set_rows_total(8);
    sum->set_rows_covered(rows);
    sum->set_significand_bits(24 - rank);
    sum->add_gram_a(1.5);
    sum->add_gram_b(2.5);
    return r;
  };
  StepMerger merger;
  merger.Add(report(0, 1, 4));
  merger.Add(report(1, 2, 4));
  merger.Add(report(1, 2, 4));  // re-sent
  ASSERT_EQ(merger.train().qk_size(), 1);
  EXPECT_EQ(merger.train().qk(0).partial().rows_covered(), 8u);
  EXPECT_EQ(merger.train().qk(0).partial().gram_a(0), 3.0);
  EXPECT_EQ(merger.train().qk(0).partial().significand_bits(), 23u);
}

TEST(StepMergerTest, RefusesToAddShardsOfDifferentSize) {
  StepMerger merger;
  const auto gates = [](uint64_t id, int experts) {
    model::ShardReport r;
    model::GateShard* gate = r.mutable_shards()->add_gates();
    gate->add_sources()->set_id(id);
    gate->set_tokens(1);
    for (int e = 0; e < experts; ++e) gate->add_p_sum(1.0 / experts);
    return r;
  };
  merger.Add(gates(0, 4));
  merger.Add(gates(1, 8));
  EXPECT_EQ(merger.train().gates(0).tokens(), 1u);
  ASSERT_EQ(merger.train().undefined_size(), 1);
  EXPECT_EQ(merger.train().undefined(0).reason(), "shards_disagree");
}

TEST(StepMergerTest, KeepsEvaluationApart) {
  StepMerger merger;
  model::ShardReport eval = LoadReport(0, 0, {5, 5});
  eval.set_eval(true);
  merger.Add(LoadReport(0, 0, {1, 2}));
  merger.Add(eval);
  EXPECT_THAT(merger.train().load(0).counts(), ElementsAre(1, 2));
  EXPECT_THAT(merger.eval().load(0).counts(), ElementsAre(5, 5));
}

}  // namespace
}  // namespace foreshock::merge
