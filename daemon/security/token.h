// Bearer tokens: 32 random bytes as text, of which the daemon keeps only the SHA-256.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const std::string token, NewToken());   // "fst_4Jr0..."
//   const TokenHash hash = HashToken(token);
//   if (SameHash(HashToken(presented), hash)) ...
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace foreshock::security {

using TokenHash = std::array<uint8_t, 32>;

// "fst_" and 43 characters of base64url. Unavailable when the system has no randomness.
absl::StatusOr<std::string> NewToken();

// Of the whole text. A hash without salt is enough for what was drawn from 2^256, and for nothing
// that a person thought of.
TokenHash HashToken(absl::string_view token);

// In a time that does not depend on where they differ.
bool SameHash(const TokenHash& a, const TokenHash& b);

std::string ToHex(const TokenHash& hash);
// 64 hexadecimal digits of either case; unset for anything else.
std::optional<TokenHash> ParseTokenHash(absl::string_view text);

// What stands behind "Bearer " in an Authorization header; empty when it is none.
absl::string_view BearerToken(absl::string_view authorization);

}  // namespace foreshock::security
