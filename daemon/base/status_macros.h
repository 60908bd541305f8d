// RETURN_IF_ERROR and ASSIGN_OR_RETURN, which the packaged Abseil does not have.
//
//   FORESHOCK_RETURN_IF_ERROR(store.Write(batch));
//   FORESHOCK_ASSIGN_OR_RETURN(const RunRow run, store.GetRun(name));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#define FORESHOCK_CONCAT_(a, b) a##b
#define FORESHOCK_CONCAT(a, b) FORESHOCK_CONCAT_(a, b)

#define FORESHOCK_RETURN_IF_ERROR(expr)                                   \
  do {                                                                    \
    if (absl::Status foreshock_status = (expr); !foreshock_status.ok()) { \
      return foreshock_status;                                            \
    }                                                                     \
  } while (false)

#define FORESHOCK_ASSIGN_OR_RETURN(lhs, expr) \
  FORESHOCK_ASSIGN_OR_RETURN_(FORESHOCK_CONCAT(foreshock_statusor_, __LINE__), lhs, expr)
#define FORESHOCK_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return std::move(tmp).status();    \
  lhs = std::move(tmp).value()

namespace foreshock::base {

// The same status with "context: " before its message.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace foreshock::base
