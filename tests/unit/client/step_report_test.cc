#include "foreshock/step_report.h"

#include <cstring>

#include "gmock/gmock.h"

namespace foreshock::client_internal {
namespace {

using ::testing::ElementsAre;

TEST(StepReportTest, SaysWhatWasAdded) {
  const float weights[] = {1, 2, 3, 4, 5, 6};
  const int64_t counts[] = {7, 0, 9};
  const uint16_t half[] = {0x3c00, 0xfc00};
  const float max_logit = 3.5f;
  const TensorView max_view = F32(&max_logit, {1});
  StepReport report(12);
  report.Tokens(4096)
      .Skipped()
      .Scalar(3, 2.5)
      .Scalar(4, -1)
      .RouterLoad(1, I64(counts, {3}), 8)
      .RouterWeights(2, F32(weights, {2, 3}), true)
      .RouterGates(2, F16(half, {1, 2}), v1::SCORE_KIND_SOFTMAX)
      .QkFactors(0, {0, 2}, F32(weights, {2, 1, 3}), F32(weights, {2, 1, 3}), true)
      .AttentionLogits(0, {5}, F16(half, {1, 1, 2}), &max_view)
      .Event(v1::EVENT_KIND_CHECKPOINT_SAVED, "ckpt-12");
  report.AddSummary()->mutable_policy_mismatch()->set_tokens_compared(5);
  const v1::Report built = std::move(report).Take();

  EXPECT_EQ(built.step(), 12);
  EXPECT_EQ(built.tokens(), 4096u);
  EXPECT_EQ(built.phase(), v1::PHASE_TRAIN);
  EXPECT_TRUE(built.skipped());
  EXPECT_TRUE(built.last_of_step());
  EXPECT_FALSE(built.recomputed());
  EXPECT_GT(built.time_unix_ns(), 1'600'000'000'000'000'000);
  ASSERT_EQ(built.summaries_size(), 8);
  EXPECT_THAT(built.summaries(0).scalars().ids(), ElementsAre(3, 4));
  EXPECT_THAT(built.summaries(0).scalars().values(), ElementsAre(2.5, -1));
  EXPECT_EQ(built.summaries(0).scalars().weights_size(), 0);
  const v1::RouterLoad& load = built.summaries(1).router_load();
  EXPECT_EQ(load.expert_offset(), 8u);
  EXPECT_EQ(load.counts().dtype(), v1::DTYPE_I64);
  ASSERT_EQ(load.counts().data().size(), sizeof counts);
  EXPECT_EQ(std::memcmp(load.counts().data().data(), counts, sizeof counts), 0);
  EXPECT_THAT(built.summaries(2).router_weights().weights().shape(), ElementsAre(2, 3));
  EXPECT_EQ(built.summaries(3).router_gates().scores().data().size(), sizeof half);
  EXPECT_THAT(built.summaries(4).qk_factors().heads(), ElementsAre(0, 2));
  EXPECT_TRUE(built.summaries(4).qk_factors().fp32_master());
  EXPECT_EQ(built.summaries(5).attention_logits().max_logit().data().size(), 4u);
  EXPECT_EQ(built.summaries(6).event().step(), 12);
  EXPECT_EQ(built.summaries(7).policy_mismatch().tokens_compared(), 5u);
}

TEST(StepReportTest, WeightsAreAllThereOrNone) {
  StepReport report(0);
  report.Eval().Recomputed().MoreFollows().Scalar(1, 10).Scalar(2, 20, 0.5).Scalar(3, 30);
  const v1::Report built = std::move(report).Take();
  EXPECT_THAT(built.summaries(0).scalars().weights(), ElementsAre(1, 0.5, 1));
  EXPECT_EQ(built.phase(), v1::PHASE_EVAL);
  EXPECT_TRUE(built.recomputed());
  EXPECT_FALSE(built.last_of_step());
}

}  // namespace
}  // namespace foreshock::client_internal
