#include "daemon/security/token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace foreshock::security {

absl::StatusOr<std::string> NewToken() {
  std::array<uint8_t, 32> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) {
    return absl::UnavailableError("the system gives no random bytes");
  }
  const absl::string_view bytes(reinterpret_cast<const char*>(random.data()), random.size());
  std::string text;
  absl::WebSafeBase64Escape(bytes, &text);
  OPENSSL_cleanse(random.data(), random.size());
  return absl::StrCat("fst_", text);
}

TokenHash HashToken(absl::string_view token) {
  TokenHash hash;
  SHA256(reinterpret_cast<const uint8_t*>(token.data()), token.size(), hash.data());
  return hash;
}

bool SameHash(const TokenHash& a, const TokenHash& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string ToHex(const TokenHash& hash) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

std::optional<TokenHash> ParseTokenHash(absl::string_view text) {
  TokenHash hash;
  const auto is_digit = [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); };
  if (text.size() != 2 * hash.size() || !std::all_of(text.begin(), text.end(), is_digit)) {
    return std::nullopt;
  }
  const std::string bytes = absl::HexStringToBytes(text);
  std::copy(bytes.begin(), bytes.end(), hash.begin());
  return hash;
}

absl::string_view BearerToken(absl::string_view authorization) {
  constexpr absl::string_view kScheme = "Bearer ";  // any case, as HTTP has it
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return "";
  return absl::StripAsciiWhitespace(authorization.substr(kScheme.size()));
}

}  // namespace foreshock::security
