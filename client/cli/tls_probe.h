// What is wrong with TLS between here and the daemon, which gRPC tells in no words for people.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "foreshock/credentials.h"

namespace foreshock::cli {

struct TlsFault {
  std::string detail{};  // what was found; empty: nothing is wrong
  std::string mend{};    // what to do
};

// Connects to `address` (host:port), greets it as the credentials say and waits for its answer.
// Says nothing where nobody listens, or where neither side wants TLS.
TlsFault ProbeTls(const std::string& address, const Credentials& credentials,
                  absl::Duration timeout);

// The first numeric address of the host, which may be one itself; empty: none.
std::string ResolveHost(const std::string& host);

}  // namespace foreshock::cli
