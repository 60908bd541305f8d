#include "client/cpp/src/split.h"

#include "gmock/gmock.h"

namespace foreshock::client_internal {
namespace {

v1::Report Make(const std::vector<size_t>& summary_bytes) {
  v1::Report report;
  report.set_seq(1);
  report.set_step(5);
  report.set_time_unix_ns(1'700'000'000'000'000'000);
  report.set_tokens(100);
  report.set_last_of_step(true);
  uint32_t layer = 0;
  for (const size_t bytes : summary_bytes) {
    v1::RouterGates* gates = report.add_summaries()->mutable_router_gates();
    gates->set_layer(layer++);
    gates->mutable_scores()->set_data(std::string(bytes, 'x'));
  }
  return report;
}

TEST(SplitTest, ASmallReportStaysWhole) {
  const v1::Report report = Make({100, 100});
  const std::vector<v1::Report> parts = Split(report, report.ByteSizeLong());
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].SerializeAsString(), report.SerializeAsString());
}

TEST(SplitTest, PartsFitKeepTheOrderAndSayTheStepOnce) {
  for (const size_t limit : {300u, 500u, 1000u, 1100u}) {
    const v1::Report report = Make({100, 150, 30, 200, 10, 10, 180, 90, 0, 240});
    const std::vector<v1::Report> parts = Split(report, limit);
    EXPECT_GT(parts.size(), 1u);
    uint32_t layer = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_LE(parts[i].ByteSizeLong(), limit);
      EXPECT_EQ(parts[i].step(), 5);
      EXPECT_EQ(parts[i].time_unix_ns(), report.time_unix_ns());
      EXPECT_EQ(parts[i].tokens(), i == 0 ? 100u : 0u);
      EXPECT_EQ(parts[i].last_of_step(), i + 1 == parts.size());
      EXPECT_GT(parts[i].summaries_size(), 0);
      for (const v1::Summary& summary : parts[i].summaries()) {
        EXPECT_EQ(summary.router_gates().layer(), layer++);
      }
    }
    EXPECT_EQ(layer, 10u);
  }
}

TEST(SplitTest, ASummaryOverTheLimitStandsAlone) {
  const std::vector<v1::Report> parts = Split(Make({10, 5000, 10}), 200);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1].summaries_size(), 1);
}

}  // namespace
}  // namespace foreshock::client_internal
