#include "daemon/detect/level.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <random>

#include "daemon/base/archive.h"

namespace foreshock::detect {
namespace {

constexpr Limits kLevelOfLoss{.side = Side::kUp, .logarithm = true, .size = 0.03, .noises = 3};

struct Told {
  std::optional<int64_t> from;  // the first row at which it lasts
  std::optional<int64_t> until;
  Change change;  // when it was told
};

// Rows 0 .. rows - 1 of `value`, with noise of one percent, seed 1.
Told Watch(Level* level, int rows, const std::function<double(int)>& value, int begin = 0) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.01);
  Told told;
  for (int row = begin; row < rows; ++row) {
    const Change change = level->Push(row, value(row) * std::exp(noise(random)));
    if (change.lasts && !told.from.has_value()) {
      told.from = row;
      told.change = change;
    }
    if (!change.lasts && told.from.has_value() && !told.until.has_value()) told.until = row;
  }
  return told;
}

TEST(LevelTest, AJumpIsToldWithinThreeRowsAndTheLevelBeforeIsKept) {
  Level level(kLevelOfLoss);
  const Told told = Watch(&level, 600, [](int row) { return row < 300 ? 2.0 : 7.0; });
  EXPECT_EQ(told.from, 302);
  EXPECT_FALSE(told.until.has_value()) << "it lasts as long as the level is lost";
  EXPECT_NEAR(told.change.before, 2, 0.05);
  EXPECT_EQ(told.change.before_step, 299);
  EXPECT_GT(told.change.limit, told.change.before);
  EXPECT_LT(told.change.limit, told.change.now);
}

TEST(LevelTest, AJumpInsideADescentIsSeenAlthoughTheLossWasHigherBefore) {
  Level level(kLevelOfLoss);
  const Told told =
      Watch(&level, 480, [](int row) { return row < 260 ? 2.2 - row * 0.0038 : 1.5; });
  ASSERT_TRUE(told.from.has_value());
  EXPECT_GE(*told.from, 260);
  EXPECT_LE(*told.from, 264);
}

TEST(LevelTest, ASpikeThatFallsBackIsNotTold) {
  Level level(kLevelOfLoss);
  const Told told = Watch(&level, 1000, [](int row) {
    const int since = row - 500;
    return since < 0 ? 2.0 : 2.0 + 1.5 * std::pow(0.5, since);
  });
  EXPECT_FALSE(told.from.has_value()) << *told.from;
}

TEST(LevelTest, ItIsOverWhenTheLevelIsBack) {
  Level level(kLevelOfLoss);
  const Told told = Watch(&level, 600, [](int row) { return row >= 300 && row < 340 ? 3.0 : 2.0; });
  ASSERT_TRUE(told.from.has_value());
  ASSERT_TRUE(told.until.has_value());
  EXPECT_GE(*told.until, 341);
  EXPECT_LE(*told.until, 352);
}

TEST(LevelTest, ADescentAndItsEndAreNoRise) {
  Level level(kLevelOfLoss);
  EXPECT_FALSE(Watch(&level, 3000, [](int row) {
                 return row < 100 ? 7.0 : 2.0 + 5.0 * std::exp(-(row - 100) / 80.0);
               }).from.has_value());
}

TEST(LevelTest, JudgesFromAboutTheTenthRow) {
  Level level(kLevelOfLoss);
  int64_t known = -1;
  for (int row = 0; row < 20; ++row) {
    if (level.Push(row, 2 + 0.01 * (row % 3)).known && known < 0) known = row;
  }
  EXPECT_EQ(known, 10);
}

TEST(LevelTest, ValuesThatHaveNoLogarithmAreNoRows) {
  Level level(kLevelOfLoss);
  EXPECT_FALSE(Watch(&level, 400, [](int row) {
                 return row % 7 == 0 ? 0.0 : row % 11 == 0 ? -1.0 : 2.0;
               }).from.has_value());
}

TEST(LevelTest, AResumeBehindTheJumpEndsIt) {
  Level level(kLevelOfLoss);
  Watch(&level, 320, [](int row) { return row < 300 ? 2.0 : 7.0; });
  level.Resume(280);
  const Told told = Watch(
      &level, 400, [](int) { return 2.0; }, 280);
  EXPECT_FALSE(told.from.has_value());
}

TEST(LevelTest, AResumeAfterTheJumpDoesNotEndIt) {
  Level level(kLevelOfLoss);
  Watch(&level, 400, [](int row) { return row < 300 ? 2.0 : 7.0; });
  level.Resume(380);
  EXPECT_EQ(Watch(
                &level, 400, [](int) { return 7.0; }, 380)
                .from,
            380);
}

TEST(LevelTest, AnotherRegimeIsANewLevel) {
  Level level(kLevelOfLoss);
  Watch(&level, 300, [](int) { return 2.0; });
  level.Reset();
  EXPECT_FALSE(Watch(
                   &level, 600, [](int) { return 7.0; }, 300)
                   .from.has_value());
}

TEST(LevelTest, GoesOnFromItsBytes) {
  Level one(kLevelOfLoss);
  Watch(&one, 301, [](int row) { return row < 300 ? 2.0 : 7.0; });
  base::Archive writer;
  writer.Take(&one);
  base::Archive reader(writer.bytes());
  Level other(kLevelOfLoss);
  reader.Take(&other);
  ASSERT_TRUE(reader.AtEnd());
  for (int row = 301; row < 700; ++row) {
    const double value = row < 500 ? 7 : 2;
    const Change a = one.Push(row, value), b = other.Push(row, value);
    ASSERT_EQ(a.lasts, b.lasts) << row;
    ASSERT_EQ(a.before, b.before) << row;
    ASSERT_EQ(a.limit, b.limit) << row;
  }
}

}  // namespace
}  // namespace foreshock::detect
