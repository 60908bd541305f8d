#include "daemon/rules/trend.h"

#include <gtest/gtest.h>

#include <vector>

namespace foreshock::rules {
namespace {

std::vector<TrendPoint> Points(const std::vector<double>& values) {
  std::vector<TrendPoint> points;
  for (const double value : values) points.push_back({static_cast<int64_t>(points.size()), value});
  return points;
}

TEST(TrendTest, MannKendallByHand) {
  const struct {
    const char* what;
    std::vector<double> values;
    double z;
  } kCases[] = {
      {"nothing", {}, 0},
      {"one", {7}, 0},
      {"all equal", {3, 3, 3, 3}, 0},
      // 10 rising pairs; variance 5 * 4 * 15 / 18 = 16.667; (10 - 1) / 4.0825
      {"rising", {1, 2, 3, 4, 5}, 2.204541},
      {"falling", {5, 4, 3, 2, 1}, -2.204541},
      // 9 rising, 6 falling; variance 6 * 5 * 17 / 18 = 28.333; (3 - 1) / 5.3229
      {"two out of order", {1, 2, 4, 3, 5, 0.5}, 0.375735},
      // 9 rising, 0 falling, 1 tie: variance (300 - 2 * 1 * 9) / 18 = 15.667
      {"with a tie", {1, 2, 2, 4, 5}, 2.021165},
      {"as many up as down", {1, 2, 2, 1}, 0},
  };
  for (const auto& test : kCases) {
    EXPECT_NEAR(MannKendallZ(Points(test.values)), test.z, 1e-6) << test.what;
  }
  EXPECT_NEAR(LargestMannKendallZ(5), 2.204541, 1e-6);
  EXPECT_EQ(LargestMannKendallZ(1), 0);
}

TEST(TrendTest, TheilSenIsTheMedianOfTheSlopesOfAllPairs) {
  EXPECT_DOUBLE_EQ(TheilSenSlope(Points({1, 3})), 2);
  EXPECT_DOUBLE_EQ(TheilSenSlope(Points({0, 1, 2, 3, 1000})), 1);
  // Gaps count as steps: slopes 1, 2/10, 3/10 ...
  const std::vector<TrendPoint> gap = {{0, 0}, {1, 1}, {11, 3}};
  EXPECT_DOUBLE_EQ(TheilSenSlope(gap), 3.0 / 11);
}

}  // namespace
}  // namespace foreshock::rules
