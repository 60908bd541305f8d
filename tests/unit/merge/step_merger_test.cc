#include "daemon/merge/step_merger.h"

#include <map>
#include <random>
#include <string>

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

TEST(StepMergerTest, AFindingSaysWhichReplicaDisagreesWhere) {
  StepMerger merger;
  for (const uint32_t rank : {4u, 5u}) {
    model::ShardReport report;
    report.set_rank(rank);
    model::LogitShard* logits = report.mutable_shards()->add_logits();
    logits->set_layer(3);
    logits->set_head(6);
    logits->add_sources()->set_fingerprint(rank);
    report.mutable_shards()->add_policy()->add_sources()->set_fingerprint(rank);
    report.mutable_shards()->add_gates()->add_sources()->set_fingerprint(rank);
    merger.Add(report);
  }
  ASSERT_EQ(merger.train().findings_size(), 3);
  const struct {
    std::string name;
    int32_t layer, head;
  } kExpected[] = {{"attention_logits", 3, 6},
                   {"router_gates", 0, -1},
                   {"policy_mismatch", model::kNoLayer, -1}};
  for (size_t i = 0; i < 3; ++i) {
    const model::FindingShard& finding = merger.train().findings(static_cast<int>(i));
    EXPECT_EQ(finding.kind(), static_cast<uint32_t>(model::Finding::Kind::kReplicaMismatch));
    EXPECT_EQ(finding.name(), kExpected[i].name);
    EXPECT_EQ(finding.layer(), kExpected[i].layer);
    EXPECT_EQ(finding.head(), kExpected[i].head);
    EXPECT_EQ(finding.rank(), 5u);
    EXPECT_EQ(finding.count(), 1u);
  }
}

// A shard of several sources adds only if all of them are new.
TEST(StepMergerTest, AShardThatOverlapsWhatIsInDoesNotAdd) {
  const auto report = [](std::vector<uint64_t> sources, uint64_t tokens) {
    model::ShardReport r;
    model::CoactivationShard* shard = r.mutable_shards()->add_coactivation();
    shard->set_tokens(tokens);
    for (const uint64_t source : sources) shard->add_sources()->set_id(source);
    return r;
  };
  StepMerger merger;
  merger.Add(report({1, 2}, 10));
  merger.Add(report({2, 3}, 100));
  EXPECT_EQ(merger.train().coactivation(0).tokens(), 10u);
  merger.Add(report({3, 4}, 1000));
  EXPECT_EQ(merger.train().coactivation(0).tokens(), 1010u);
  merger.Add(report({4}, 10000));
  EXPECT_EQ(merger.train().coactivation(0).tokens(), 1010u);
  EXPECT_THAT(merger.train().findings(), IsEmpty());
}

TEST(StepMergerTest, AMaximumIsOfThoseThatHaveOne) {
  const auto report = [](uint64_t source, bool has_max, double max, bool exact) {
    model::ShardReport r;
    model::LogitShard* shard = r.mutable_shards()->add_logits();
    shard->add_sources()->set_id(source);
    shard->set_has_max(has_max);
    shard->set_max(max);
    shard->set_max_exact(exact);
    return r;
  };
  StepMerger merger;
  const auto logits = [&merger]() -> const model::LogitShard& { return merger.train().logits(0); };
  merger.Add(report(1, false, 0, false));
  EXPECT_FALSE(logits().has_max());
  merger.Add(report(2, true, -7, true));
  EXPECT_TRUE(logits().has_max());
  EXPECT_EQ(logits().max(), -7) << "0 was none";
  EXPECT_TRUE(logits().max_exact());
  merger.Add(report(3, false, 0, false));
  EXPECT_EQ(logits().max(), -7);
  EXPECT_TRUE(logits().max_exact());
  merger.Add(report(4, true, -9, false));
  EXPECT_EQ(logits().max(), -7);
  EXPECT_FALSE(logits().max_exact()) << "the other may have a higher one";
}

TEST(StepMergerTest, TheFirstEffectiveRankStays) {
  StepMerger merger;
  for (const double rank : {0.0, 3.0, 2.0}) {
    model::ShardReport report;
    model::LogitShard* shard = report.mutable_shards()->add_logits();
    shard->add_sources()->set_id(static_cast<uint64_t>(rank));
    if (rank > 0) shard->set_effective_rank(rank);
    merger.Add(report);
  }
  EXPECT_EQ(merger.train().logits(0).effective_rank(), 3);
}

TEST(StepMergerTest, AMinimumIsOfTheShardsThatHaveTokensOrMargins) {
  const auto report = [](uint64_t source, uint64_t tokens, double entropy, double margin) {
    model::ShardReport r;
    model::GateShard* shard = r.mutable_shards()->add_gates();
    shard->add_sources()->set_id(source);
    shard->set_tokens(tokens);
    shard->set_entropy_min(entropy);
    shard->set_margin_count(tokens);
    shard->set_margin_min(margin);
    return r;
  };
  StepMerger merger;
  const auto gates = [&merger]() -> const model::GateShard& { return merger.train().gates(0); };
  merger.Add(report(1, 0, 0, 0));
  merger.Add(report(2, 4, 2, 5));
  EXPECT_EQ(gates().entropy_min(), 2);
  EXPECT_EQ(gates().margin_min(), 5);
  merger.Add(report(3, 0, 0, 0));
  EXPECT_EQ(gates().entropy_min(), 2);
  EXPECT_EQ(gates().margin_min(), 5);
  merger.Add(report(4, 1, 3, 4));
  EXPECT_EQ(gates().entropy_min(), 2);
  EXPECT_EQ(gates().margin_min(), 4);
  EXPECT_EQ(gates().margin_count(), 5u);
}

TEST(StepMergerTest, SketchesMergeAsTheirBinsAdd) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    StepMerger merger;
    std::map<int32_t, uint64_t> expected;
    for (uint64_t source = 1; source <= 3; ++source) {
      std::map<int32_t, uint64_t> bins;
      for (uint64_t i = random() % 5 + 1; i > 0; --i) {
        bins[static_cast<int32_t>(random() % 7) - 3] = 1 + random() % 9;
      }
      model::ShardReport report;
      model::GateShard* shard = report.mutable_shards()->add_gates();
      shard->add_sources()->set_id(source);
      shard->set_margin_count(1);
      for (const auto& [bin, count] : bins) {
        expected[bin] += count;
        shard->add_margin_bin(bin);
        shard->add_margin_bin_count(count);
      }
      merger.Add(report);
    }
    const model::GateShard& gates = merger.train().gates(0);
    ASSERT_EQ(gates.margin_bin_size(), gates.margin_bin_count_size());
    ASSERT_EQ(static_cast<size_t>(gates.margin_bin_size()), expected.size());
    int i = 0;
    for (const auto& [bin, count] : expected) {
      EXPECT_EQ(gates.margin_bin(i), bin);
      EXPECT_EQ(gates.margin_bin_count(i), count);
      ++i;
    }
  }
}

TEST(StepMergerTest, WhatOneShardDoesNotKnowIsNeverKnownAgain) {
  for (const size_t without : {0u, 1u, 2u}) {
    StepMerger merger;
    for (uint64_t source = 0; source < 3; ++source) {
      model::ShardReport report = LoadReport(0, source, {5, 5});
      model::LoadShard* load = report.mutable_shards()->mutable_load(0);
      if (source != without) {
        for (const int64_t value : {1, 2}) {
          load->add_dropped(value);
          load->add_gate_mass(0.5);
        }
      }
      merger.Add(report);
    }
    EXPECT_THAT(merger.train().load(0).dropped(), IsEmpty()) << without;
    EXPECT_THAT(merger.train().load(0).gate_mass(), IsEmpty()) << without;
    EXPECT_THAT(merger.train().load(0).counts(), ElementsAre(15, 15)) << without;
  }
}

TEST(StepMergerTest, ExpertRangesOfOtherSizeOrOffsetStayApart) {
  StepMerger merger;
  const std::pair<uint32_t, std::vector<int64_t>> kRanges[] = {
      {0, {1, 2}}, {0, {1, 2, 3}}, {2, {1, 2}}, {3, {1, 2}}, {1u << 31, {1, 2}}};
  for (const auto& [offset, counts] : kRanges) {
    model::ShardReport report = LoadReport(0, 7, counts);
    report.mutable_shards()->mutable_load(0)->set_expert_offset(offset);
    merger.Add(report);
  }
  EXPECT_EQ(merger.train().load_size(), 5);
}

TEST(StepMergerTest, KeepsWhatReportsSayOfTheStep) {
  StepMerger merger;
  EXPECT_FALSE(merger.has_eval());
  EXPECT_FALSE(merger.skipped());
  for (const int i : {2, 1}) {
    model::ShardReport report;
    report.set_rank(static_cast<uint32_t>(i));
    report.set_time_unix_ns(100 * i);
    report.set_skipped(i == 2);
    report.add_events()->set_name(i == 2 ? "second" : "first");
    report.add_events()->set_name("note");
    merger.Add(report);
  }
  EXPECT_TRUE(merger.skipped());
  EXPECT_EQ(merger.time_unix_ns(), 200);
  ASSERT_EQ(merger.events().size(), 4u);
  EXPECT_EQ(merger.events()[0].name(), "second");
  EXPECT_EQ(merger.events()[1].name(), "note");
  EXPECT_EQ(merger.events()[2].name(), "first");
  EXPECT_FALSE(merger.has_eval());
  model::ShardReport eval;
  eval.set_eval(true);
  merger.Add(eval);
  EXPECT_TRUE(merger.has_eval());
}

// A bound on memory needs no exact figure: at least what the messages take, and not much more.
TEST(StepMergerTest, BytesAreAboutWhatIsHeld) {
  const std::string name(2000, 'n');
  model::ShardReport report;
  model::StepShards* shards = report.mutable_shards();
  shards->add_scalars()->set_name(name);
  shards->add_tensors()->set_name(name);
  shards->add_findings()->set_name(name);
  shards->add_undefined()->set_indicator(name);
  model::GateShard* gates = shards->add_gates();
  for (int i = 0; i < 2000; ++i) gates->add_p_sum(i);
  report.add_events()->set_detail(name);
  for (const bool eval : {false, true}) {
    report.set_eval(eval);
    for (int part = 0; part < 6; ++part) {
      model::ShardReport one = report;
      if (part != 0) one.mutable_shards()->clear_scalars();
      if (part != 1) one.mutable_shards()->clear_tensors();
      if (part != 2) one.mutable_shards()->clear_findings();
      if (part != 3) one.mutable_shards()->clear_undefined();
      if (part != 4) one.mutable_shards()->clear_gates();
      if (part != 5) one.clear_events();
      StepMerger merger;
      merger.Add(one);
      const size_t held = merger.train().SpaceUsedLong() + merger.eval().SpaceUsedLong() -
                          2 * sizeof(model::StepShards) +
                          (part == 5 ? merger.events()[0].SpaceUsedLong() : 0);
      EXPECT_GE(merger.bytes(), held * 9 / 10) << part;
      EXPECT_LE(merger.bytes(), held * 5 / 2) << part;
    }
  }
}

TEST(StepMergerTest, SourcesAndRanksTakeBytesOnce) {
  StepMerger merger;
  const auto bytes_after = [&merger](const model::ShardReport& report) {
    const size_t before = merger.bytes();
    merger.Add(report);
    return merger.bytes() - before;
  };
  model::ShardReport tokens;
  for (const uint64_t id : {1, 2, 3}) tokens.mutable_shards()->add_token_sources()->set_id(id);
  EXPECT_GT(bytes_after(tokens), 3 * 30u);
  EXPECT_EQ(bytes_after(tokens), 0u);
  tokens.set_rank(1);
  EXPECT_GT(bytes_after(tokens), 8u) << "a rank";
  EXPECT_LT(bytes_after(LoadReport(1, 5, {1, 2})), 1000u);
  const size_t source = bytes_after(LoadReport(1, 6, {1, 2}));
  EXPECT_GT(source, 30u);
  EXPECT_LT(source, 100u);
  EXPECT_EQ(bytes_after(LoadReport(1, 6, {1, 2})), 0u);
  EXPECT_GT(bytes_after(LoadReport(1, 6, {1, 2}, /*fingerprint=*/9)),
            sizeof(model::FindingShard) - 1);
  EXPECT_LT(merger.bytes(), 3000u);
}

}  // namespace
}  // namespace foreshock::merge
