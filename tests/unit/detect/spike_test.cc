#include "daemon/detect/spike.h"

#include <gtest/gtest.h>

namespace foreshock::detect {
namespace {

constexpr Limits kSpikes{.side = Side::kUp, .logarithm = true, .size = 1, .noises = 8};

TEST(SpikeTest, IsToldAtItsRowEndsAtTheNextAndDoesNotSpoilTheLevel) {
  Spike spike(kSpikes);
  for (int row = 0; row < 100; ++row) {
    const bool far = row == 50 || row == 60;
    const Change change = spike.Push(row, far ? 1000 : 1 + 0.1 * (row % 3));
    ASSERT_EQ(change.lasts, far) << row;
    if (far) {
      EXPECT_NEAR(change.before, 1.1, 0.11);
      EXPECT_EQ(change.before_step, row - 1);
    }
  }
}

TEST(SpikeTest, ANewLevelIsNoSpikeAfterSixteenRows) {
  Spike spike(kSpikes);
  for (int row = 0; row < 50; ++row) spike.Push(row, 1 + 0.1 * (row % 3));
  for (int row = 50; row < 65; ++row) ASSERT_TRUE(spike.Push(row, 9).lasts) << row;
  for (int row = 65; row < 90; ++row) ASSERT_FALSE(spike.Push(row, 9).lasts) << row;
}

}  // namespace
}  // namespace foreshock::detect
