#include "daemon/detect/frozen.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::detect {
namespace {

TEST(FrozenTest, EqualRowsAfterRowsThatDiffered) {
  Frozen frozen(30);
  for (int row = 0; row < 100; ++row) ASSERT_FALSE(frozen.Push(row, row % 2 * 0.1 + 1).lasts);
  for (int row = 100; row < 129; ++row) ASSERT_FALSE(frozen.Push(row, 2.5).lasts) << row;
  const Change change = frozen.Push(129, 2.5);
  EXPECT_TRUE(change.lasts);
  EXPECT_EQ(change.before_step, 100);
  EXPECT_FALSE(frozen.Push(130, 2.6).lasts);
}

TEST(FrozenTest, WhatNeverVariedIsNotFrozen) {
  Frozen frozen(30);
  for (int row = 0; row < 500; ++row) ASSERT_FALSE(frozen.Push(row, 3e-4).lasts);
}

TEST(FrozenTest, WhatOftenRepeatsItselfIsNotFrozen) {
  Frozen frozen(30);
  for (int row = 0; row < 600; ++row) ASSERT_FALSE(frozen.Push(row, row / 40).lasts) << row;
}

TEST(FrozenTest, ALossThatIsExactlyZeroAtOnce) {
  Frozen zero(10, 0.0);
  for (int row = 0; row < 900; ++row) ASSERT_FALSE(zero.Push(row, 0.9 + 0.01 * (row % 7)).lasts);
  for (int row = 900; row < 909; ++row) ASSERT_FALSE(zero.Push(row, 0).lasts) << row;
  for (int row = 909; row < 3000; ++row) ASSERT_TRUE(zero.Push(row, 0).lasts) << row;
  EXPECT_FALSE(zero.Push(3000, 0.9).lasts);
}

TEST(FrozenTest, ALossThatShrinksUntilItIsPrintedAsZeroIsWell) {
  Frozen zero(10, 0.0);
  for (int row = 0; row < 900; ++row) {
    const double loss = row < 800 ? std::exp(-row / 50.0) * (1 + 0.5 * (row % 3)) : 0;
    ASSERT_FALSE(zero.Push(row, loss).lasts) << row;
  }
}

TEST(FrozenTest, ALossThatIsOftenZeroIsWell) {
  Frozen zero(10, 0.0);
  for (int row = 0; row < 2000; ++row) {
    ASSERT_FALSE(zero.Push(row, row % 40 < 20 ? 0.01 * (1 + row % 7) : 0).lasts) << row;
  }
}

}  // namespace
}  // namespace foreshock::detect
