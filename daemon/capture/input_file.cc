#include "daemon/capture/input_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/status_macros.h"

namespace foreshock::capture {

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  InputFile input;
  input.path_ = path;
  input.file_.reset(std::fopen(path.c_str(), "rbe"));
  if (input.file_ == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("opening capture ", path));
  }
  struct stat info;
  if (fstat(fileno(input.file_.get()), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("opening capture ", path, ": it is a directory, a file is needed"));
    }
    if (S_ISREG(info.st_mode)) input.size_ = static_cast<uint64_t>(info.st_size);
  }
  return input;
}

absl::StatusOr<absl::string_view> InputFile::Peek(size_t count) {
  FORESHOCK_CHECK(count <= kPeekBytesMax);
  while (peeked_.size() < count) {
    const size_t old_size = peeked_.size();
    peeked_.resize(count);
    const absl::StatusOr<size_t> got = ReadFromFile(&peeked_[old_size], count - old_size);
    peeked_.resize(old_size + (got.ok() ? *got : 0));
    FORESHOCK_RETURN_IF_ERROR(got.status());
    if (*got == 0) break;
  }
  return absl::string_view(peeked_).substr(0, count);
}

absl::StatusOr<size_t> InputFile::Read(char* out, size_t size) {
  size_t taken = std::min(size, peeked_.size());
  if (taken > 0) {
    std::memcpy(out, peeked_.data(), taken);
    peeked_.erase(0, taken);
  } else {
    FORESHOCK_ASSIGN_OR_RETURN(taken, ReadFromFile(out, size));
  }
  offset_ += taken;
  return taken;
}

absl::StatusOr<size_t> InputFile::ReadFromFile(char* out, size_t size) {
  const size_t got = std::fread(out, 1, size, file_.get());
  if (got == 0 && std::ferror(file_.get()) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("reading capture ", path_, " at byte ", offset_ + peeked_.size()));
  }
  return got;
}

}  // namespace foreshock::capture
