// A text file line by line, with the place of each line. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/capture/input_file.h"

namespace foreshock::cli {

class LogLines {
 public:
  explicit LogLines(capture::InputFile file) : file_(std::move(file)) {}

  // The next line without its LF or CR LF; false at the end of the file. Of a line that is longer
  // than kLineBytesMax only the beginning is kept: cut() says so. Errors: what the file system
  // says.
  absl::StatusOr<bool> Next();

  // All that Next() has not given yet, at once. Errors: also more than kRestBytesMax.
  absl::StatusOr<std::string> Rest();

  const std::string& line() const { return line_; }
  bool cut() const { return cut_; }
  uint64_t number() const { return number_; }  // of line(), from 1
  // "FILE:LINE:COLUMN" of a byte of line(), counted from 0.
  std::string At(size_t byte) const { return At(number_, byte); }
  std::string At(uint64_t line, size_t byte) const;

  const std::string& path() const { return file_.path(); }
  uint64_t bytes_read() const { return file_.offset(); }
  uint64_t bytes_total() const { return file_.size(); }  // 0: not known

  static constexpr size_t kLineBytesMax = 1u << 20;
  static constexpr size_t kRestBytesMax = 256u << 20;

 private:
  capture::InputFile file_;
  std::string chunk_;
  size_t used_ = 0;  // of chunk_
  std::string line_;
  bool cut_ = false;
  uint64_t number_ = 0;
};

}  // namespace foreshock::cli
