// Secrets of notifiers. The configuration names a file or an environment variable, which is read
// when the notifiers are made. Only the receiver gets to see the secret.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace foreshock::notify {

// Where a secret is. Value type; it holds no secret itself.
struct SecretSource {
  std::string file{};
  std::string env{};
  bool given() const { return !file.empty() || !env.empty(); }
};

// The secret without white space around it. NotFound, PermissionDenied or InvalidArgument (empty,
// over 64 KiB, with control characters), naming the source and never the content.
absl::StatusOr<std::string> ReadSecret(const SecretSource& source);

// Replaces every secret in `text` by "***". Texts of receivers and libraries need it.
std::string Redact(std::string text, const std::vector<std::string>& secrets);

}  // namespace foreshock::notify
