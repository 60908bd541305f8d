#include "daemon/notify/retry_clock.h"
#include "daemon/notify/token_bucket.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

TEST(BackoffTest, GrowsToFiveMinutesAndIsSpread) {
  EXPECT_EQ(Backoff(1, 1), absl::Seconds(1));
  EXPECT_EQ(Backoff(4, 1), absl::Seconds(8));
  EXPECT_EQ(Backoff(4, 0.5), absl::Seconds(4));
  EXPECT_EQ(Backoff(4, 0), absl::Milliseconds(100));
  EXPECT_EQ(Backoff(1000, 1), absl::Minutes(5));
}

TEST(RetryClockTest, WaitsLongerAfterEachFailureAndStartsAgainAfterASuccess) {
  RetryClock clock;
  EXPECT_FALSE(clock.Waits(kNow));
  clock.Failed(kNow, 1, absl::ZeroDuration());
  EXPECT_EQ(clock.until() - kNow, absl::Seconds(1));
  EXPECT_TRUE(clock.Waits(kNow));
  EXPECT_FALSE(clock.Waits(clock.until()));
  clock.Failed(kNow, 1, absl::ZeroDuration());
  EXPECT_EQ(clock.until() - kNow, absl::Seconds(2));
  EXPECT_EQ(clock.failures(), 2);
  clock.Succeeded();
  clock.Failed(kNow, 1, absl::Seconds(90));  // the receiver asks for more than the first wait
  EXPECT_EQ(clock.until() - kNow, absl::Seconds(90));
}

TEST(TokenBucketTest, HoldsAnHoursTokensAndRefillsEvenly) {
  TokenBucket bucket(2);
  EXPECT_TRUE(bucket.Take(kNow));
  EXPECT_TRUE(bucket.Take(kNow));
  EXPECT_FALSE(bucket.Take(kNow));
  EXPECT_EQ(bucket.next() - kNow, absl::Minutes(30) + absl::Milliseconds(1));
  EXPECT_FALSE(bucket.Take(kNow + absl::Minutes(29)));
  EXPECT_TRUE(bucket.Take(kNow + absl::Minutes(31)));
  EXPECT_FALSE(bucket.Take(kNow + absl::Minutes(31)));
  // It never holds more than an hour's.
  const absl::Time later = kNow + absl::Hours(100);
  EXPECT_TRUE(bucket.Take(later));
  EXPECT_TRUE(bucket.Take(later));
  EXPECT_FALSE(bucket.Take(later));
}

TEST(TokenBucketTest, SaysWhenTheRestOfATokenIsThere) {
  TokenBucket bucket(2);
  EXPECT_TRUE(bucket.Take(kNow));
  EXPECT_TRUE(bucket.Take(kNow));
  EXPECT_FALSE(bucket.Take(kNow + absl::Minutes(15)));
  EXPECT_EQ(bucket.next() - kNow, absl::Minutes(30) + absl::Milliseconds(1));
}

TEST(TokenBucketTest, ZeroIsNoLimit) {
  TokenBucket bucket(0);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(bucket.Take(kNow));
}

}  // namespace
}  // namespace foreshock::notify
