// A file that is read from front to back, with errors that name it. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace foreshock::capture {

class InputFile {
 public:
  static absl::StatusOr<InputFile> Open(const std::string& path);

  // The bytes at the front, at most `count`, fewer only at the end of the file; not consumed.
  // `count` is at most kPeekBytesMax.
  absl::StatusOr<absl::string_view> Peek(size_t count);
  // Up to `size` bytes; 0 at the end of the file.
  absl::StatusOr<size_t> Read(char* out, size_t size);

  const std::string& path() const { return path_; }
  uint64_t offset() const { return offset_; }  // bytes consumed
  uint64_t size() const { return size_; }      // 0: not known

  static constexpr size_t kPeekBytesMax = 4096;

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  absl::StatusOr<size_t> ReadFromFile(char* out, size_t size);

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  std::string peeked_;  // read from the file, not yet consumed
  uint64_t offset_ = 0;
  uint64_t size_ = 0;
};

}  // namespace foreshock::capture
