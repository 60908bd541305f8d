#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "daemon/ingest/validate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wire_messages.h"

namespace foreshock::ingest {
namespace {

using namespace ::foreshock::support;  // NOLINT: the small messages

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

absl::Status Validate(const v1::Summary& summary, const v1::ModelShape& model, int64_t step = 50) {
  NameTable names{IngestLimits{}};
  return ValidateSummary(summary, {.model = model, .step = step, .index = 0}, &names);
}

absl::Status Validate(const v1::Summary& summary) { return Validate(summary, GoodHello().model()); }

struct BadSummary {
  const char* name;
  v1::Summary summary;
  std::function<void(v1::Summary*)> spoil;
  std::string message;
};

void ExpectAllRefused(const std::vector<BadSummary>& cases) {
  for (const BadSummary& bad : cases) {
    v1::Summary summary = bad.summary;
    bad.spoil(&summary);
    EXPECT_THAT(Validate(summary), StatusIs(absl::StatusCode::kInvalidArgument, bad.message))
        << bad.name;
  }
}

TEST(ValidateSummaryTest, AcceptsOneOfEveryKind) {
  for (const v1::Summary& summary : GoodSummaries()) {
    EXPECT_OK(Validate(summary)) << summary.ShortDebugString();
  }
}

TEST(ValidateSummaryTest, AcceptsEveryKindWhenTheModelIsUnknown) {
  for (v1::Summary& summary : GoodSummaries()) {
    if (summary.has_qk_gram()) summary.mutable_qk_gram()->mutable_rows()->set_count(8);
    if (summary.has_qk_gram()) summary.mutable_qk_gram()->mutable_rows()->set_total(8);
    EXPECT_OK(Validate(summary, v1::ModelShape())) << summary.ShortDebugString();
  }
}

TEST(ValidateSummaryTest, NonFiniteDataIsNotAnError) {
  v1::Summary summary = GoodScalars(kNan);
  EXPECT_OK(Validate(summary));
  summary = GoodLogits();
  *summary.mutable_attention_logits()->mutable_logits() = FilledTensor({2, 3, 5}, -kInf);
  EXPECT_OK(Validate(summary));
  summary = GoodFactors();
  *summary.mutable_qk_factors()->mutable_q()->mutable_dense() = FilledTensor({2, 2, 8}, kNan);
  EXPECT_OK(Validate(summary));
  summary = GoodGates();
  *summary.mutable_router_gates()->mutable_scores() = FilledTensor({3, 4}, kNan);
  EXPECT_OK(Validate(summary));
  summary = GoodPolicyMismatch();
  *summary.mutable_policy_mismatch()->mutable_trainer_logprobs() = FilledTensor({3}, -kInf);
  *summary.mutable_policy_mismatch()->mutable_rollout_logprobs() = FilledTensor({3}, kNan);
  EXPECT_OK(Validate(summary));
  summary = GoodTensorStats();
  v1::TensorStats* stats = summary.mutable_tensor_stats()->mutable_stats(0);
  stats->set_min(kNan);
  stats->set_mean(kNan);
  stats->set_rms(kInf);
  EXPECT_OK(Validate(summary));
}

TEST(ValidateSummaryTest, APayloadOfANewerSenderIsUnimplemented) {
  EXPECT_THAT(Validate(v1::Summary()),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "summaries[0]: found no payload; allowed one that this daemon knows (unset, "
                       "or the sender is newer)"));
}

TEST(ValidateSummaryTest, TensorsOfTheWrongTypeShapeOrSize) {
  const auto scores = [](v1::Summary* s) { return s->mutable_router_gates()->mutable_scores(); };
  ExpectAllRefused({
      {"absent", GoodGates(), [](v1::Summary* s) { s->mutable_router_gates()->clear_scores(); },
       "summaries[0].router_gates.scores.dtype (layer 1): found dtype 0; allowed F64, F32, F16, "
       "BF16"},
      {"unknown type", GoodGates(),
       [&](v1::Summary* s) { scores(s)->set_dtype(static_cast<v1::DType>(9)); },
       "summaries[0].router_gates.scores.dtype (layer 1): found dtype 9; allowed F64, F32, F16, "
       "BF16"},
      {"negative type", GoodGates(),
       [&](v1::Summary* s) { scores(s)->set_dtype(static_cast<v1::DType>(-1)); },
       "summaries[0].router_gates.scores.dtype (layer 1): found dtype -1; allowed F64, F32, F16, "
       "BF16"},
      {"integers", GoodGates(), [&](v1::Summary* s) { scores(s)->set_dtype(v1::DTYPE_I32); },
       "summaries[0].router_gates.scores.dtype (layer 1): found I32; allowed F64, F32, F16, BF16"},
      {"too few extents", GoodGates(),
       [&](v1::Summary* s) { scores(s)->mutable_shape()->Truncate(1); },
       "summaries[0].router_gates.scores.shape (layer 1): found [3]; allowed [tokens = 1..1048576, "
       "experts = 4]"},
      {"too many extents", GoodGates(),
       [&](v1::Summary* s) {
         for (int i = 0; i < 1000; ++i) scores(s)->add_shape(1);
       },
       "summaries[0].router_gates.scores.shape (layer 1): found 1002 extents; allowed [tokens = "
       "1..1048576, experts = 4]"},
      {"zero extent", GoodGates(), [&](v1::Summary* s) { scores(s)->set_shape(0, 0); },
       "summaries[0].router_gates.scores.shape (layer 1): found [0, 4]; allowed [tokens = "
       "1..1048576, experts = 4]"},
      {"absurd extent", GoodGates(), [&](v1::Summary* s) { scores(s)->set_shape(0, 4294967295u); },
       "summaries[0].router_gates.scores.shape (layer 1): found [4294967295, 4]; allowed [tokens = "
       "1..1048576, experts = 4]"},
      {"short data", GoodGates(), [&](v1::Summary* s) { scores(s)->mutable_data()->pop_back(); },
       "summaries[0].router_gates.scores.data (layer 1): found 47 bytes; allowed 48 bytes (shape "
       "[3, 4] of F32)"},
      {"long data", GoodGates(), [&](v1::Summary* s) { scores(s)->mutable_data()->push_back(0); },
       "summaries[0].router_gates.scores.data (layer 1): found 49 bytes; allowed 48 bytes (shape "
       "[3, 4] of F32)"},
      {"shape larger than data", GoodGates(),
       [&](v1::Summary* s) { scores(s)->set_shape(0, 1u << 20); },
       "summaries[0].router_gates.scores.data (layer 1): found 48 bytes; allowed 16777216 bytes "
       "(shape [1048576, 4] of F32)"},
  });
}

TEST(ValidateSummaryTest, LayersAndHeadsOutsideTheModel) {
  const auto logits = [](v1::Summary* s) { return s->mutable_attention_logits(); };
  ExpectAllRefused({
      {"layer", GoodLogits(), [&](v1::Summary* s) { logits(s)->set_layer(4); },
       "summaries[0].attention_logits.layer (layer 4): found 4; allowed 0..3 (model.layers of the "
       "Hello)"},
      {"no heads", GoodLogits(), [&](v1::Summary* s) { logits(s)->clear_heads(); },
       "summaries[0].attention_logits.heads (layer 3): found no heads; allowed 1 or more"},
      {"head outside", GoodLogits(), [&](v1::Summary* s) { logits(s)->set_heads(1, 4); },
       "summaries[0].attention_logits.heads (layer 3): found head 4; allowed 0..3 (model.heads of "
       "the Hello)"},
      {"head twice", GoodLogits(), [&](v1::Summary* s) { logits(s)->set_heads(1, 0); },
       "summaries[0].attention_logits.heads (layer 3): found 0 after 0; allowed strictly "
       "increasing"},
      {"heads unsorted", GoodLogits(),
       [&](v1::Summary* s) {
         logits(s)->set_heads(0, 2);
         logits(s)->set_heads(1, 1);
       },
       "summaries[0].attention_logits.heads (layer 3): found 1 after 2; allowed strictly "
       "increasing"},
      {"heads and shape differ", GoodLogits(), [&](v1::Summary* s) { logits(s)->add_heads(3); },
       "summaries[0].attention_logits.logits.shape (layer 3): found [2, 3, 5]; allowed [heads = 3, "
       "rows = 1..1024, cols = 1..1048576]"},
      {"nothing inside", GoodLogits(),
       [&](v1::Summary* s) {
         logits(s)->clear_logits();
         logits(s)->clear_max_logit();
       },
       "summaries[0].attention_logits (layer 3): found neither logits nor max_logit; allowed one "
       "or both"},
  });
  v1::Summary unknown = GoodLogits();
  unknown.mutable_attention_logits()->set_layer(1u << 16);
  EXPECT_THAT(Validate(unknown, v1::ModelShape()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "summaries[0].attention_logits.layer (layer 65536): found 65536; allowed "
                       "0..65535"));
}

TEST(ValidateSummaryTest, FactorsThatDoNotFitTogether) {
  const auto factors = [](v1::Summary* s) { return s->mutable_qk_factors(); };
  ExpectAllRefused({
      {"no q", GoodFactors(), [&](v1::Summary* s) { factors(s)->clear_q(); },
       "summaries[0].qk_factors.q (layer 2): found nothing; allowed dense or low_rank"},
      {"other r", GoodFactors(),
       [&](v1::Summary* s) {
         *factors(s)->mutable_q()->mutable_dense() = FilledTensor({2, 3, 8}, 1);
       },
       "summaries[0].qk_factors.q.dense.shape (layer 2): found [2, 3, 8]; allowed [heads = 2, r = "
       "2, rows = 8]"},
      {"k of other rows", GoodFactors(),
       [&](v1::Summary* s) {
         *factors(s)->mutable_k()->mutable_dense() = FilledTensor({1, 2, 4}, 1);
       },
       "summaries[0].qk_factors.k.dense.shape (layer 2): found [1, 2, 4]; allowed [key heads = "
       "1..2, r = 2, rows = 8]"},
      {"one k without an index", GoodFactors(),
       [&](v1::Summary* s) { factors(s)->clear_k_index(); },
       "summaries[0].qk_factors.k.dense.shape (layer 2): found [1, 2, 8]; allowed [key heads = 2, "
       "r "
       "= 2, rows = 8]"},
      {"index outside", GoodFactors(), [&](v1::Summary* s) { factors(s)->set_k_index(1, 1); },
       "summaries[0].qk_factors.k_index[1] (layer 2): found 1; allowed 0..0"},
      {"index too short", GoodFactors(),
       [&](v1::Summary* s) { factors(s)->mutable_k_index()->Truncate(1); },
       "summaries[0].qk_factors.k_index (layer 2): found 1 indices; allowed none, or 2, one per "
       "head"},
      {"integers as weights", GoodFactors(),
       [&](v1::Summary* s) { factors(s)->set_weight_dtype(v1::DTYPE_I32); },
       "summaries[0].qk_factors.weight_dtype (layer 2): found I32; allowed absent, F64, F32, F16, "
       "BF16"},
      {"row shard", GoodFactors(),
       [&](v1::Summary* s) {
         factors(s)->mutable_rows()->set_count(4);
         factors(s)->mutable_rows()->set_total(8);
       },
       "summaries[0].qk_factors.rows (layer 2): found 4 of 8 rows; allowed all rows; the factors "
       "of "
       "row shards cannot be merged, send QkGram"},
  });
  v1::Summary whole = GoodFactors();
  whole.mutable_qk_factors()->mutable_rows()->set_count(8);
  whole.mutable_qk_factors()->mutable_rows()->set_total(8);
  EXPECT_OK(Validate(whole));
}

TEST(ValidateSummaryTest, LatentAttentionInItsFactoredForm) {
  v1::ModelShape model = GoodHello().model();
  model.set_attention(v1::ATTENTION_KIND_MLA);
  v1::Summary summary = GoodFactors();
  v1::QkFactors* factors = summary.mutable_qk_factors();
  factors->clear_k_index();
  for (v1::Projection* projection : {factors->mutable_q(), factors->mutable_k()}) {
    v1::LowRank* low_rank = projection->mutable_low_rank();
    *low_rank->mutable_down() = FilledTensor({3, 8}, 1);
    *low_rank->mutable_up() = FilledTensor({2, 5, 3}, 1);  // r is not the whole head
  }
  EXPECT_OK(Validate(summary, model));
  *factors->mutable_q()->mutable_low_rank()->mutable_gain() = FilledTensor({3}, 1);
  EXPECT_OK(Validate(summary, model));
  *factors->mutable_q()->mutable_low_rank()->mutable_gain() = FilledTensor({2}, 1);
  EXPECT_THAT(
      Validate(summary, model),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "summaries[0].qk_factors.q.low_rank.gain.shape (layer 2): found [2]; allowed "
               "[rank = 3]"));
  factors->mutable_q()->mutable_low_rank()->clear_gain();
  *factors->mutable_k()->mutable_low_rank()->mutable_up() = FilledTensor({2, 4, 3}, 1);
  EXPECT_THAT(Validate(summary, model),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "summaries[0].qk_factors.k.low_rank.up.shape (layer 2): found [2, 4, 3]; "
                       "allowed [key heads = 2, r = 5, rank = 3]"));
}

TEST(ValidateSummaryTest, GramsThatCannotBe) {
  const auto gram = [](v1::Summary* s) { return s->mutable_qk_gram(); };
  const auto rows = [&](v1::Summary* s, uint32_t begin, uint32_t count, uint32_t total) {
    gram(s)->mutable_rows()->set_begin(begin);
    gram(s)->mutable_rows()->set_count(count);
    gram(s)->mutable_rows()->set_total(total);
  };
  ExpectAllRefused({
      {"other head_dim", GoodGram(), [&](v1::Summary* s) { gram(s)->set_head_dim(3); },
       "summaries[0].qk_gram.head_dim (layer 0): found 3; allowed 2..2"},
      {"no window", GoodGram(), [&](v1::Summary* s) { gram(s)->set_window_steps(0); },
       "summaries[0].qk_gram.window_steps (layer 0): found 0; allowed 1..1048576"},
      {"other step", GoodGram(), [&](v1::Summary* s) { gram(s)->set_base_step(41); },
       "summaries[0].qk_gram.base_step (layer 0): found 41; allowed >= 0 and the report's step "
       "less "
       "window_steps, 50 - 10"},
      {"no power of two", GoodGram(), [&](v1::Summary* s) { gram(s)->set_a(0, 0.3); },
       "summaries[0].qk_gram.a (layer 0): found 0.3 at index 0; allowed powers of two, 2^n > 0"},
      {"negative scale", GoodGram(), [&](v1::Summary* s) { gram(s)->set_q(0, -2); },
       "summaries[0].qk_gram.q (layer 0): found -2 at index 0; allowed powers of two, 2^n > 0"},
      {"zero scale", GoodGram(), [&](v1::Summary* s) { gram(s)->set_q(0, 0); },
       "summaries[0].qk_gram.q (layer 0): found 0 at index 0; allowed powers of two, 2^n > 0"},
      {"infinite scale", GoodGram(), [&](v1::Summary* s) { gram(s)->set_q(0, kInf); },
       "summaries[0].qk_gram.q (layer 0): found inf at index 0; allowed powers of two, 2^n > 0"},
      {"scale missing", GoodGram(), [&](v1::Summary* s) { gram(s)->clear_a(); },
       "summaries[0].qk_gram.a (layer 0): found 0 values; allowed 1, one per head"},
      {"full matrices", GoodGram(),
       [&](v1::Summary* s) {
         *gram(s)->mutable_gram_b() = FilledTensor({1, 16}, 1);
       },
       "summaries[0].qk_gram.gram_b.shape (layer 0): found [1, 16]; allowed [heads = 1, r(2r+1) = "
       "10]"},
      {"half precision", GoodGram(),
       [&](v1::Summary* s) { gram(s)->mutable_gram_a()->set_dtype(v1::DTYPE_BF16); },
       "summaries[0].qk_gram.gram_a.dtype (layer 0): found BF16; allowed F64, F32"},
      {"rows beyond", GoodGram(), [&](v1::Summary* s) { rows(s, 4, 5, 8); },
       "summaries[0].qk_gram.rows (layer 0): found [4, 9); allowed within [0, 8)"},
      {"rows overflow", GoodGram(), [&](v1::Summary* s) { rows(s, 4294967295u, 2, 8); },
       "summaries[0].qk_gram.rows (layer 0): found [4294967295, 4294967297); allowed within [0, "
       "8)"},
      {"no rows", GoodGram(), [&](v1::Summary* s) { rows(s, 0, 0, 8); },
       "summaries[0].qk_gram.rows.count (layer 0): found 0; allowed 1 or more"},
      {"rows of another d", GoodGram(), [&](v1::Summary* s) { rows(s, 0, 4, 16); },
       "summaries[0].qk_gram.rows.total (layer 0): found 16; allowed 8 (model.hidden_size of the "
       "Hello)"},
  });
  v1::ModelShape model = GoodHello().model();
  model.clear_hidden_size();
  EXPECT_THAT(Validate(GoodGram(), model),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "summaries[0].qk_gram.rows (layer 0): found nothing, with model.hidden_size "
                       "unknown; allowed a RowRange, or a hidden_size in the Hello"));
  v1::Summary shard = GoodGram();
  rows(&shard, 4, 4, 8);
  EXPECT_OK(Validate(shard));
}

TEST(ValidateSummaryTest, RouterPayloadsThatCannotBe) {
  const auto gates = [](v1::Summary* s) { return s->mutable_router_gates(); };
  const auto load = [](v1::Summary* s) { return s->mutable_router_load(); };
  ExpectAllRefused({
      {"score kind", GoodGates(), [&](v1::Summary* s) { gates(s)->clear_score_kind(); },
       "summaries[0].router_gates.score_kind (layer 1): found 0; allowed SOFTMAX_LOGITS, "
       "SIGMOID_LOGITS, SOFTMAX, SIGMOID"},
      {"top_k", GoodGates(), [&](v1::Summary* s) { gates(s)->set_top_k(5); },
       "summaries[0].router_gates.top_k (layer 1): found 5; allowed 0..4 (experts)"},
      {"chosen of another k", GoodGates(), [&](v1::Summary* s) { gates(s)->set_top_k(3); },
       "summaries[0].router_gates.chosen.shape (layer 1): found [3, 2]; allowed [tokens = 3, k = "
       "3]"},
      {"chosen as I64", GoodGates(),
       [&](v1::Summary* s) { gates(s)->mutable_chosen()->set_dtype(v1::DTYPE_I64); },
       "summaries[0].router_gates.chosen.dtype (layer 1): found I64; allowed I32"},
      {"chosen expert outside", GoodGates(),
       [&](v1::Summary* s) {
         *gates(s)->mutable_chosen() =
             MakeTensor<int32_t>(v1::DTYPE_I32, {3, 2}, std::vector<int32_t>{0, 1, 2, 4, 0, 3});
       },
       "summaries[0].router_gates.chosen (layer 1): found 4 at index 3; allowed 0..3"},
      {"bias", GoodGates(),
       [&](v1::Summary* s) { *gates(s)->mutable_correction_bias() = FilledTensor({3}, 0); },
       "summaries[0].router_gates.correction_bias.shape (layer 1): found [3]; allowed [experts = "
       "4]"},
      {"offset", GoodLoad(), [&](v1::Summary* s) { load(s)->set_expert_offset(4); },
       "summaries[0].router_load.expert_offset (layer 1): found 4; allowed 0..3"},
      {"experts beyond", GoodLoad(), [&](v1::Summary* s) { load(s)->set_expert_offset(3); },
       "summaries[0].router_load.counts.shape (layer 1): found [2]; allowed [experts = 1]"},
      {"negative count", GoodLoad(),
       [&](v1::Summary* s) {
         *load(s)->mutable_counts() =
             MakeTensor<int64_t>(v1::DTYPE_I64, {2}, std::vector<int64_t>{1, -1});
       },
       "summaries[0].router_load.counts (layer 1): found -1 at index 1; allowed 0..1099511627776"},
      {"dropped more", GoodLoad(),
       [&](v1::Summary* s) {
         *load(s)->mutable_dropped() =
             MakeTensor<int32_t>(v1::DTYPE_I32, {2}, std::vector<int32_t>{0, 29});
       },
       "summaries[0].router_load.dropped (layer 1): found 29 at index 1; allowed 0..28 (counts)"},
      {"float counts", GoodLoad(),
       [&](v1::Summary* s) { load(s)->mutable_counts()->set_dtype(v1::DTYPE_F64); },
       "summaries[0].router_load.counts.dtype (layer 1): found F64; allowed I32, I64"},
      {"weights", GoodRouterWeights(),
       [](v1::Summary* s) {
         *s->mutable_router_weights()->mutable_weights() = FilledTensor({8, 4}, 1);
       },
       "summaries[0].router_weights.weights.shape (layer 1): found [8, 4]; allowed [experts = 4, "
       "rows = 8]"},
      {"pairs", GoodCoactivation(),
       [](v1::Summary* s) {
         s->mutable_router_coactivation()->mutable_pair_counts()->set_shape(0, 10);
       },
       "summaries[0].router_coactivation.pair_counts.shape (layer 1): found [10]; allowed "
       "[E(E-1)/2 = 6]"},
      {"experts", GoodCoactivation(),
       [](v1::Summary* s) { s->mutable_router_coactivation()->set_experts(5); },
       "summaries[0].router_coactivation.experts (layer 1): found 5; allowed 4..4"},
  });
}

TEST(ValidateSummaryTest, EventsAndLogProbabilitiesThatCannotBe) {
  const auto event = [](v1::Summary* s) { return s->mutable_event(); };
  const auto mismatch = [](v1::Summary* s) { return s->mutable_policy_mismatch(); };
  const std::string kinds =
      "WARMUP_END, LR_PHASE, BATCH_SIZE, DATA_CHANGE, EVALUATION, CHECKPOINT_SAVED, NOTE";
  ExpectAllRefused({
      {"no kind", GoodEvent(), [&](v1::Summary* s) { event(s)->clear_kind(); },
       "summaries[0].event.kind: found 0; allowed " + kinds},
      {"the daemon's own kind", GoodEvent(),
       [&](v1::Summary* s) { event(s)->set_kind(v1::EVENT_KIND_RESUME); },
       "summaries[0].event.kind: found 8; allowed " + kinds},
      {"negative step", GoodEvent(), [&](v1::Summary* s) { event(s)->set_step(-1); },
       "summaries[0].event.step: found -1; allowed 0..2^53"},
      {"long name", GoodEvent(), [&](v1::Summary* s) { event(s)->set_name(std::string(257, 'n')); },
       "summaries[0].event.name: found 257 bytes; allowed 0..256 bytes"},
      {"too many pairs", GoodPolicyMismatch(),
       [&](v1::Summary* s) { *mismatch(s)->mutable_trainer_logprobs() = FilledTensor({4097}, -1); },
       "summaries[0].policy_mismatch.trainer_logprobs.shape: found [4097]; allowed [tokens = "
       "1..4096]"},
      {"other length", GoodPolicyMismatch(),
       [&](v1::Summary* s) { *mismatch(s)->mutable_rollout_logprobs() = FilledTensor({2}, -1); },
       "summaries[0].policy_mismatch.rollout_logprobs.shape: found [2]; allowed [tokens = 3]"},
      {"positive", GoodPolicyMismatch(),
       [&](v1::Summary* s) { *mismatch(s)->mutable_rollout_logprobs() = FilledTensor({3}, 0.5); },
       "summaries[0].policy_mismatch.rollout_logprobs: found 0.5 at index 0; allowed "
       "log-probabilities, <= 0"},
      {"negative weight", GoodPolicyMismatch(),
       [&](v1::Summary* s) { *mismatch(s)->mutable_weights() = FilledTensor({3}, -1); },
       "summaries[0].policy_mismatch.weights: found -1 at index 0; allowed finite, >= 0"},
      {"more mismatches than routes", GoodPolicyMismatch(),
       [&](v1::Summary* s) { mismatch(s)->set_routes_mismatched(11); },
       "summaries[0].policy_mismatch.routes_mismatched: found 11; allowed 0..10 (routes_compared)"},
  });
}

TEST(ValidateReportTest, HeaderOfAReport) {
  struct BadReport {
    std::function<void(v1::Report*)> spoil;
    std::string message;
  };
  const IngestLimits limits{.summaries_per_report_max = 2};
  EXPECT_OK(ValidateReport(GoodReport(1), limits));
  EXPECT_OK(ValidateReport(EmptyReport(1, int64_t{1} << 53), limits));
  const std::vector<BadReport> cases = {
      {[](v1::Report* r) { r->set_step(-1); }, "step: found -1; allowed 0..2^53"},
      {[](v1::Report* r) { r->set_step((int64_t{1} << 53) + 1); },
       "step: found 9007199254740993; allowed 0..2^53"},
      {[](v1::Report* r) { r->set_time_unix_ns(-1); },
       "time_unix_ns: found -1; allowed 0 (unknown) or more"},
      {[](v1::Report* r) { r->set_tokens(uint64_t{1} << 41); },
       "tokens: found 2199023255552; allowed 0..2^40"},
      {[](v1::Report* r) { r->set_phase(static_cast<v1::Phase>(3)); },
       "phase: found 3; allowed absent, TRAIN, EVAL"},
      {[](v1::Report* r) {
         for (int i = 0; i < 2; ++i) *r->add_summaries() = GoodScalars();
       },
       "summaries: found 3 summaries; allowed at most 2; send several reports"},
  };
  for (const BadReport& bad : cases) {
    v1::Report report = GoodReport(1);
    bad.spoil(&report);
    EXPECT_THAT(ValidateReport(report, limits),
                StatusIs(absl::StatusCode::kInvalidArgument, bad.message));
  }
}

}  // namespace
}  // namespace foreshock::ingest
