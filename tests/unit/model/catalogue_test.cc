#include "daemon/model/catalogue.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::model {
namespace {

TEST(CatalogueTest, IsSortedAndEveryEntryIsFound) {
  std::string last;
  for (const IndicatorInfo& info : Indicators()) {
    EXPECT_LT(last, std::string(info.id));
    last = std::string(info.id);
    ASSERT_EQ(FindIndicator(info.id), &info);
    EXPECT_FALSE(info.help.empty()) << info.id;
    EXPECT_GE(info.version, 1u) << info.id;
  }
}

TEST(CatalogueTest, MetricNamesAreUniqueAndCarryTheUnit) {
  std::set<std::string> names;
  for (const IndicatorInfo& info : Indicators()) {
    EXPECT_TRUE(names.insert(MetricName(info.id)).second) << info.id;
  }
  EXPECT_EQ(MetricName("attn.delta2.effective_rank"), "foreshock_attn_delta2_effective_rank");
  EXPECT_EQ(MetricName("attn.delta2.entropy"), "foreshock_attn_delta2_entropy_nats");
  EXPECT_EQ(MetricName("attn.delta2.entropy_ratio"), "foreshock_attn_delta2_entropy_ratio");
  EXPECT_EQ(MetricName("attn.delta2.entropy_ratio_l1"), "foreshock_attn_delta2_entropy_ratio_l1");
  EXPECT_EQ(MetricName("load.max_violation"), "foreshock_load_max_violation");
  EXPECT_EQ(MetricName("load.max_violation_ratio"), "foreshock_load_max_violation_ratio");
  EXPECT_EQ(MetricName("train.loss"), "foreshock_train_loss");
  EXPECT_EQ(MetricName("tensor.nonfinite"), "foreshock_tensor_nonfinite");
  EXPECT_EQ(MetricName("train.tokens_total"), "foreshock_train_tokens_total_per_step");
}

TEST(CatalogueTest, KnowsUserScalarsAndEvaluationTwins) {
  EXPECT_TRUE(IsKnownIndicator("train.loss"));
  EXPECT_TRUE(IsKnownIndicator("eval.train.loss"));
  EXPECT_TRUE(IsKnownIndicator("eval.router.token_entropy"));
  EXPECT_FALSE(IsKnownIndicator("train.Loss"));
  EXPECT_FALSE(IsKnownIndicator("train."));
  EXPECT_FALSE(IsKnownIndicator("attn.delta2.entropy_ration"));
  EXPECT_EQ(StorageOf("train.loss"), Storage::kF32);
  EXPECT_EQ(StorageOf("tensor.nonfinite"), Storage::kI64);
}

TEST(CatalogueTest, CountsAndScalarsHaveNoLossyForm) {
  EXPECT_EQ(PrecisionOf("attn.delta2.entropy_ratio"), 1e-4);
  EXPECT_EQ(PrecisionOf("eval.router.token_entropy"), 1e-4);
  EXPECT_EQ(PrecisionOf("train.loss"), 0);
  EXPECT_EQ(PrecisionOf("load.share"), 0);
  for (const IndicatorInfo& info : Indicators()) {
    EXPECT_TRUE(info.precision == 0 || info.precision == 1e-4) << info.id;
    if (info.storage == Storage::kI64) {
      EXPECT_EQ(info.precision, 0) << info.id;
    }
  }
}

}  // namespace
}  // namespace foreshock::model
