// Secrets of notifiers: named in the configuration, read from a file or the environment when the
// notifiers are made, and kept out of every text that leaves the process but to the receiver.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace foreshock::notify {

// Where a secret stands. Value type; holds no secret itself.
struct SecretSource {
  std::string file{};
  std::string env{};
  bool given() const { return !file.empty() || !env.empty(); }
};

// The secret without white space around it. NotFound, PermissionDenied or InvalidArgument (empty,
// over 64 KiB, with control characters), naming the source and never the content.
absl::StatusOr<std::string> ReadSecret(const SecretSource& source);

// Replaces every secret in `text` by "***": for what receivers and libraries say.
std::string Redact(std::string text, const std::vector<std::string>& secrets);

}  // namespace foreshock::notify
