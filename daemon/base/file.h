// Reads a small file whole.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 64u << 10, "secret file "));
//
// Header-only, because the C++ client does not link daemon/base.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace foreshock::base {

// Messages begin with `what` and the path. NotFound: there is no such file. InvalidArgument: it is
// a directory, or has more than `bytes_max` bytes. PermissionDenied: it cannot be read.
inline absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max,
                                            absl::string_view what = "") {
  const auto failed = [&](int error) {
    const std::string message = absl::StrCat(what, path, ": ", std::strerror(error));
    if (error == ENOENT) return absl::NotFoundError(message);
    return error == EISDIR ? absl::InvalidArgumentError(message)
                           : absl::PermissionDeniedError(message);
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (file == nullptr) return failed(errno);
  std::string text;
  char block[16 << 10];
  while (const size_t got = std::fread(block, 1, sizeof(block), file.get())) {
    text.append(block, got);
    if (text.size() > bytes_max) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, path, ": has more than ", bytes_max, " bytes"));
    }
  }
  if (std::ferror(file.get()) != 0) return failed(errno);
  return text;
}

}  // namespace foreshock::base
