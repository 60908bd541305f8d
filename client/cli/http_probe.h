// One plain GET, for doctor.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace foreshock::cli {

struct HttpAnswer {
  int status = 0;
  std::string body;
  absl::Time date = absl::InfinitePast();  // of the server's Date header, whole seconds; else past
};

// Unavailable if nothing answers at `address` (host:port), InvalidArgument if it is no address.
absl::StatusOr<HttpAnswer> HttpGet(const std::string& address, const std::string& path,
                                   absl::Duration timeout);

}  // namespace foreshock::cli
