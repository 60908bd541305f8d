// A listening TCP socket from "host:port". Internal to http/.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace foreshock::http_internal {

struct Listener {
  int fd = -1;          // owned by the caller, close-on-exec
  std::string address;  // as bound, with the real port
};

absl::StatusOr<Listener> Listen(const std::string& address, int backlog);

}  // namespace foreshock::http_internal
