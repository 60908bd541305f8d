#include "daemon/detect/promise.h"

#include <gtest/gtest.h>

#include <random>

namespace foreshock::detect {
namespace {

TEST(PromiseTest, ABoundOfOneInTenBeforeAnythingIsKnownAndLessLater) {
  Promise promise(25'000);
  EXPECT_GE(promise.p0(), 0.1);
  for (int block = 0; block < 3000; ++block) promise.Push(false);
  EXPECT_LT(promise.p0(), 0.002);
  EXPECT_GE(promise.p0(), 3.0 / 3030) << "never under three in what was seen";
}

TEST(PromiseTest, BlocksThatHoldInARowReachTheLevel) {
  Promise promise(25'000);
  for (int block = 0; block < 1000; ++block) ASSERT_FALSE(promise.Push(false));
  int needed = 1;
  while (!promise.Push(true)) ++needed;
  EXPECT_LE(needed, 4);
}

TEST(PromiseTest, OneBlockInAThousandNeverDoes) {
  Promise promise(25'000);
  for (int block = 1; block < 200'000; ++block) {
    ASSERT_FALSE(promise.Push(block % 1000 == 0)) << block;
  }
}

// What holds at random in a share of the blocks is the health that the promise is about: the mean
// time between false pages is the level or more. With a tenth of the blocks and a level of 1 000,
// 10^6 blocks may have 1 000; the bound on p0 leaves far fewer.
TEST(PromiseTest, RandomBlocksKeepThePromise) {
  const uint64_t seed = 11;
  std::mt19937_64 random(seed);
  std::bernoulli_distribution held(0.1);
  Promise promise(1000);
  int pages = 0;
  bool was = false;
  for (int block = 0; block < 1'000'000; ++block) {
    const bool now = promise.Push(held(random));
    pages += now && !was ? 1 : 0;
    was = now;
  }
  EXPECT_LE(pages, 1000) << "seed " << seed;
}

TEST(PromiseTest, EndsWithTheFirstBlockThatDoesNotHold) {
  Promise promise(1000);
  for (int block = 0; block < 100; ++block) promise.Push(true);
  EXPECT_TRUE(promise.Push(true));
  EXPECT_FALSE(promise.Push(false));
  EXPECT_FALSE(promise.Push(true)) << "the next page needs evidence of its own";
}

}  // namespace
}  // namespace foreshock::detect
