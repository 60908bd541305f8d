// FORESHOCK_CHECK ends the process on a broken invariant of our own. Never for input,
// configuration, disk or network: those are absl::Status.
#pragma once

namespace foreshock::base::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace foreshock::base::internal

#define FORESHOCK_CHECK(condition) \
  (static_cast<bool>(condition)    \
       ? (void)0                   \
       : ::foreshock::base::internal::CheckFailed(__FILE__, __LINE__, #condition))
