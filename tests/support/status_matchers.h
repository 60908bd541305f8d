// ASSERT_OK, EXPECT_OK, ASSERT_OK_AND_ASSIGN and StatusIs, which the packaged Abseil does not have.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::support {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  const absl::Status& status = support::GetStatus(arg);
  *result_listener << status.ToString();
  return status.ok();
}

MATCHER_P2(StatusIs, code, message_matcher, "") {
  const absl::Status& status = support::GetStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message_matcher, std::string(status.message()),
                                       result_listener);
}

}  // namespace foreshock::support

#define ASSERT_OK(expr) ASSERT_THAT((expr), ::foreshock::support::IsOk())
#define EXPECT_OK(expr) EXPECT_THAT((expr), ::foreshock::support::IsOk())
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  FORESHOCK_ASSERT_OK_AND_ASSIGN_(FORESHOCK_CONCAT(test_statusor_, __LINE__), lhs, expr)
#define FORESHOCK_ASSERT_OK_AND_ASSIGN_(tmp, lhs, expr) \
  auto tmp = (expr);                                    \
  ASSERT_OK(tmp);                                       \
  lhs = std::move(tmp).value()
