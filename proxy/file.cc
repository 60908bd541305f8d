#include "proxy/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/status_macros.h"

namespace foreshock::proxy {
namespace {

constexpr uint64_t kCopyBytes = 8u << 20;
constexpr uint64_t kEarlySyncBytes = 4u << 20;

absl::Status SystemError(absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

}  // namespace

InputFile::InputFile(std::string path, int fd, uint64_t bytes)
    : path_(std::move(path)), fd_(fd), bytes_(bytes) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("cannot open", path);
  struct stat info {};
  InputFile file(path, fd, 0);
  if (fstat(fd, &info) != 0) return SystemError("cannot stat", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  file.bytes_ = static_cast<uint64_t>(info.st_size);
  return file;
}

absl::StatusOr<std::string> InputFile::Read(uint64_t offset, uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": byte ", offset, ": ", bytes,
                                              " bytes wanted, the file has ", bytes_));
  }
  std::string text(bytes, '\0');
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got =
        pread(fd_, text.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("cannot read", path_);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": byte ", offset + done,
                                              ": the file became shorter while it was read"));
    }
    done += static_cast<uint64_t>(got);
  }
  return text;
}

absl::StatusOr<std::string> ReadWhole(const std::string& path, uint64_t bytes_max) {
  FORESHOCK_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.bytes() > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", file.bytes(), " bytes, at most ", bytes_max, " are read"));
  }
  return file.Read(0, file.bytes());
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink((path_ + ".tmp").c_str());
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  const int fd = open((path + ".tmp").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError("cannot create", path + ".tmp");
  return OutputFile(path, fd);
}

absl::Status OutputFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError("cannot write", path_ + ".tmp");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::AppendRange(const InputFile& from, uint64_t offset, uint64_t bytes) {
  auto at = static_cast<off_t>(offset);
  const bool large = bytes >= kEarlySyncBytes;
  while (bytes > 0) {
    const ssize_t copied =
        copy_file_range(from.fd(), &at, fd_, nullptr, std::min<uint64_t>(bytes, 1u << 30), 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) break;  // other file systems, or an error that the plain way will name
    bytes -= static_cast<uint64_t>(copied);
  }
  while (bytes > 0) {
    const uint64_t part = std::min(bytes, kCopyBytes);
    FORESHOCK_ASSIGN_OR_RETURN(const std::string text, from.Read(static_cast<uint64_t>(at), part));
    FORESHOCK_RETURN_IF_ERROR(Append(text));
    at += static_cast<off_t>(part);
    bytes -= part;
  }
  // A hint: the disk begins now, while the next range is copied, and Commit waits less.
  if (large) sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  const std::string temporary = path_ + ".tmp";
  if (fsync(fd_) != 0) return SystemError("cannot sync", temporary);
  if (rename(temporary.c_str(), path_.c_str()) != 0) return SystemError("cannot rename", temporary);
  close(std::exchange(fd_, -1));
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  return SyncDirectory(directory.empty() ? "." : directory);
}

absl::Status WriteWhole(const std::string& path, absl::string_view bytes) {
  FORESHOCK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  FORESHOCK_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("cannot open", path);
  const bool synced = fsync(fd) == 0;
  const absl::Status status = synced ? absl::OkStatus() : SystemError("cannot sync", path);
  close(fd);
  return status;
}

std::string Sha256(absl::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  FORESHOCK_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) ==
                  1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), size));
}

absl::StatusOr<std::string> Sha256OfFile(const InputFile& file) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  FORESHOCK_CHECK(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  for (uint64_t at = 0; at < file.bytes();) {
    const uint64_t part = std::min(kCopyBytes, file.bytes() - at);
    FORESHOCK_ASSIGN_OR_RETURN(const std::string text, file.Read(at, part));
    FORESHOCK_CHECK(EVP_DigestUpdate(context.get(), text.data(), text.size()) == 1);
    at += part;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  FORESHOCK_CHECK(EVP_DigestFinal_ex(context.get(), digest, &size) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), size));
}

}  // namespace foreshock::proxy
