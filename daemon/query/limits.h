// The limit of a list. Internal to query/.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace foreshock::query::internal {

// `given` 0: the default. InvalidArgument over `max`.
inline absl::StatusOr<uint64_t> LimitOf(uint64_t given, uint64_t by_default, uint64_t max) {
  if (given > max) {
    return absl::InvalidArgumentError(absl::StrCat("limit ", given, ": at most ", max,
                                                   " are allowed; ask for less steps at a time"));
  }
  return given == 0 ? by_default : given;
}

}  // namespace foreshock::query::internal
