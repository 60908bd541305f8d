// Files as the proxy builder uses them: read by position, written under a temporary name.
//
//   FORESHOCK_ASSIGN_OR_RETURN(InputFile in, InputFile::Open("model.safetensors"));
//   FORESHOCK_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create("cut.safetensors"));
//   FORESHOCK_RETURN_IF_ERROR(out.AppendRange(in, 8, 1024));
//   FORESHOCK_RETURN_IF_ERROR(out.Commit());   // only now does cut.safetensors exist
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace foreshock::proxy {

// An open regular file, never written to. Movable; reading is thread-safe.
class InputFile {
 public:
  static absl::StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

  // Exactly `bytes` from `offset`; OutOfRange where the file ends before.
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t bytes) const;

 private:
  InputFile(std::string path, int fd, uint64_t bytes);
  std::string path_;
  int fd_;
  uint64_t bytes_;
};

// The whole file, at most `bytes_max`.
absl::StatusOr<std::string> ReadWhole(const std::string& path, uint64_t bytes_max = 256u << 20);

// A file that appears under its name only when it is whole and on the disk. Until Commit it is
// called PATH.tmp; without Commit it is removed.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  absl::Status Append(absl::string_view bytes);
  // Copies a range of `from` without decoding it, in the kernel where the file systems allow it.
  absl::Status AppendRange(const InputFile& from, uint64_t offset, uint64_t bytes);
  // fsync, rename, fsync of the directory.
  absl::Status Commit();

 private:
  OutputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

// Create, Append, Commit.
absl::Status WriteWhole(const std::string& path, absl::string_view bytes);

// fsync of a directory, so that renames in it last.
absl::Status SyncDirectory(const std::string& path);

// SHA-256 in lower-case hexadecimal digits.
std::string Sha256(absl::string_view bytes);
absl::StatusOr<std::string> Sha256OfFile(const InputFile& file);

}  // namespace foreshock::proxy
