#include "daemon/detect/ladder.h"

#include <gtest/gtest.h>

#include <vector>

namespace foreshock::detect {
namespace {

TEST(LadderTest, EachScaleHasTheMedianOfFourOfTheOneBelow) {
  Ladder ladder;
  std::vector<std::vector<Rung>> seen(kScales);
  for (int i = 0; i < 64; ++i) {
    ladder.Push(100 + i, i % 4 == 3 ? 1e6 : i, [&](int scale, const Rung& rung) {
      seen[static_cast<size_t>(scale)].push_back(rung);
    });
  }
  ASSERT_EQ(seen[0].size(), 64u);
  ASSERT_EQ(seen[1].size(), 16u);
  ASSERT_EQ(seen[2].size(), 4u);
  ASSERT_EQ(seen[3].size(), 1u);
  EXPECT_TRUE(seen[4].empty());
  // The mean of the middle two of {0, 1, 2, 1e6}.
  EXPECT_EQ(seen[1][0].value, 1.5);
  EXPECT_EQ(seen[1][0].first_step, 100);
  EXPECT_EQ(seen[1][0].last_step, 103);
  // {1.5, 5.5, 9.5, 13.5}
  EXPECT_EQ(seen[2][0].value, 7.5);
  EXPECT_EQ(seen[3][0].last_step, 163);
}

TEST(LadderTest, ResetForgetsWhatIsNotFolded) {
  Ladder ladder;
  const auto ignore = [](int, const Rung&) {};
  for (int i = 0; i < 3; ++i) ladder.Push(i, 1e9, ignore);
  ladder.Reset();
  double second = 0;
  for (int i = 0; i < 4; ++i) {
    ladder.Push(10 + i, 2, [&](int scale, const Rung& rung) {
      if (scale == 1) second = rung.value;
    });
  }
  EXPECT_EQ(second, 2);
}

}  // namespace
}  // namespace foreshock::detect
