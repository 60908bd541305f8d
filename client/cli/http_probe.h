// One GET, for doctor.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "foreshock/credentials.h"

namespace foreshock::cli {

struct HttpAnswer {
  int status = 0;
  std::string body;
  absl::Time date = absl::InfinitePast();  // of the server's Date header, whole seconds; else past
};

// With TLS and a token as the credentials say. Unavailable if nothing answers at `address`
// (host:port), InvalidArgument if it is no address; errors of ReadSecrets.
absl::StatusOr<HttpAnswer> HttpGet(const std::string& address, const std::string& path,
                                   const Credentials& credentials, absl::Duration timeout);

// The URL that HttpGet asks.
std::string HttpUrl(const Credentials& credentials, const std::string& address,
                    const std::string& path);

}  // namespace foreshock::cli
