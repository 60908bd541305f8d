// A listening TCP socket from "host:port". Internal to http/.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace foreshock::http::internal {

struct Listener {
  int fd = -1;          // owned by the caller, close-on-exec
  std::string address;  // as bound, with the real port
};

// InvalidArgument unless Listen could read it.
absl::Status CheckAddress(const std::string& address);

absl::StatusOr<Listener> Listen(const std::string& address, int backlog);

}  // namespace foreshock::http::internal
