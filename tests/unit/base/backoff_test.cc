#include "daemon/base/backoff.h"

#include <limits>

#include "gtest/gtest.h"

namespace foreshock::base {
namespace {

constexpr Backoff kBackoff{.first = absl::Milliseconds(100), .max = absl::Milliseconds(1500)};

TEST(BackoffTest, DoublesUpToTheLimitAndJittersDownToHalf) {
  int failures = 0;
  for (const int full_ms : {100, 200, 400, 800, 1500, 1500}) {
    ++failures;
    EXPECT_EQ(kBackoff.Wait(failures, 1), absl::Milliseconds(full_ms));
    EXPECT_EQ(kBackoff.Wait(failures, 0.5), absl::Milliseconds(full_ms) * 0.75);
    EXPECT_EQ(kBackoff.Wait(failures, 0), absl::Milliseconds(full_ms) / 2);
  }
}

TEST(BackoffTest, StaysAtTheLimitAfterAnyNumberOfFailures) {
  EXPECT_EQ(kBackoff.Wait(std::numeric_limits<int>::max(), 1), absl::Milliseconds(1500));
}

}  // namespace
}  // namespace foreshock::base
