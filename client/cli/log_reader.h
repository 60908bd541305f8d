// Reads the log that a training wrote anyway, one row for what a line says of a step. The forms are
// those of docs/import.md.
//
//   LogNotes notes;
//   ASSIGN_OR_RETURN(auto reader, LogReader::Open("train.log", {}, &notes));
//   LogRow row;
//   while (true) {
//     ASSIGN_OR_RETURN(const bool more, reader->Next(&row));
//     if (!more) break;
//     Use(row);
//   }
//
// Thread-compatible. Memory: a row; a line is at most LogLines::kLineBytesMax.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/log_lines.h"

namespace foreshock::cli {

enum class LogFormat { kAuto, kMegatron, kJsonl, kJson, kCsv };

struct LogOptions {
  LogFormat format = LogFormat::kAuto;
  std::string step_key{};  // column of the step; empty: the first of the usual names
  std::string time_key{};  // column of the time; the same
};

// "loss", or "train/loss" for a nested object; the value as the log has it, NaN and Inf included.
struct LogValue {
  std::string column;
  double value = 0;
};

struct LogRow {
  int64_t step = 0;          // 0..2^53
  int64_t time_unix_ns = 0;  // 0: the log does not say
  double skipped_steps = 0;  // optimizer steps that were skipped since the row before
  std::string where{};       // FILE:LINE:COLUMN
  std::vector<LogValue> values{};
};

// What of the files did not become a row or a value.
struct LogNotes {
  uint64_t other_lines = 0;     // text between the rows of a Megatron-LM log
  uint64_t not_understood = 0;  // lines that should have been a row, or were cut off
  std::string first_not_understood;
  std::map<std::string, std::string> skipped;  // column -> why; the first kSkippedMax

  void NotUnderstood(const std::string& where, absl::string_view why);
  void Skip(const std::string& column, absl::string_view why);
  static constexpr size_t kSkippedMax = 1000;
};

class LogReader {
 public:
  // `notes` outlives the reader; several files may share it. kAuto is told by the content, and by
  // the ending .csv.
  // Errors: what the file system says; InvalidArgument for what is no text, a capture or a
  // TensorBoard file, and for a CSV without a step column.
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(const std::string& path,
                                                         const LogOptions& options,
                                                         LogNotes* notes);
  virtual ~LogReader() = default;

  // The next row; false at the end. What is no row is noted and passed over.
  // Errors: what the file system says; InvalidArgument where a CSV cannot be read any further.
  virtual absl::StatusOr<bool> Next(LogRow* row) = 0;

  virtual const char* format_name() const = 0;  // "Megatron-LM log", "JSONL", "CSV"
  uint64_t bytes_read() const { return lines_.bytes_read(); }
  uint64_t bytes_total() const { return lines_.bytes_total(); }

 protected:
  LogReader(LogLines lines, LogNotes* notes) : lines_(std::move(lines)), notes_(*notes) {}

  LogLines lines_;
  LogNotes& notes_;
};

}  // namespace foreshock::cli
