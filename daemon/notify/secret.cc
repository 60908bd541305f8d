#include "daemon/notify/secret.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace foreshock::notify {
namespace {

constexpr size_t kSecretBytesMax = 64u << 10;

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    const int error = errno;
    const std::string what = absl::StrCat("secret file ", path, ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(what) : absl::PermissionDeniedError(what);
  }
  std::string text(kSecretBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad())
    return absl::PermissionDeniedError(absl::StrCat("secret file ", path, ": unreadable"));
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadSecret(const SecretSource& source) {
  std::string secret;
  std::string name;
  if (!source.file.empty()) {
    name = absl::StrCat("secret file ", source.file);
    absl::StatusOr<std::string> text = ReadSecretFile(source.file);
    if (!text.ok()) return text;
    secret = *std::move(text);
  } else {
    name = absl::StrCat("environment variable ", source.env);
    const char* value = std::getenv(source.env.c_str());
    if (value == nullptr) return absl::NotFoundError(absl::StrCat(name, " is not set"));
    secret = value;
  }
  if (secret.size() > kSecretBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has more than ", kSecretBytesMax, " bytes"));
  }
  secret = std::string(absl::StripAsciiWhitespace(secret));
  if (secret.empty()) return absl::InvalidArgumentError(absl::StrCat(name, " is empty"));
  for (const char c : secret) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has a line break or control character inside; allowed is one line"));
    }
  }
  return secret;
}

std::string Redact(std::string text, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    if (!secret.empty()) absl::StrReplaceAll({{secret, "***"}}, &text);
  }
  return text;
}

}  // namespace foreshock::notify
