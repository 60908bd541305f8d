#include "daemon/detect/frozen.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace foreshock::detect
