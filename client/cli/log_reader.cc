#include "client/cli/log_reader.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/log_cells.h"
#include "client/cli/log_formats.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/format.h"

namespace foreshock::cli {
namespace {

absl::Status RefuseWhatIsNoLog(const std::string& path, absl::string_view front) {
  if (absl::StrContains(std::filesystem::path(path).filename().string(), "tfevents")) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": a TensorBoard event file; export its scalars to CSV or JSONL (docs/import.md)"));
  }
  if (absl::StartsWith(front, capture::kFscapMagic)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a capture already; replay and rules backtest take it as it is"));
  }
  if (absl::StrContains(front, absl::string_view("\0", 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no text; allowed are Megatron-LM logs, JSONL and CSV in UTF-8"));
  }
  return absl::OkStatus();
}

LogFormat FormatOf(const std::string& path, absl::string_view front, const LogOptions& options) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(front);
  if (absl::StartsWith(text, "[")) return LogFormat::kJson;
  if (absl::StartsWith(text, "{")) {
    // A document begins with a lone brace, or holds its rows in the first line.
    const absl::string_view first = absl::StripAsciiWhitespace(text.substr(0, text.find('\n')));
    const bool document = first == "{" || absl::EndsWithIgnoreCase(path, ".json") ||
                          absl::StartsWith(first, "{\"log_history\"");
    return document ? LogFormat::kJson : LogFormat::kJsonl;
  }
  if (absl::EndsWithIgnoreCase(path, ".csv")) return LogFormat::kCsv;
  const std::vector<absl::string_view> header =
      absl::StrSplit(text.substr(0, text.find('\n')), ',');
  const bool has_step = std::any_of(header.begin(), header.end(), [&](absl::string_view column) {
    column = absl::StripAsciiWhitespace(column);
    return options.step_key.empty() ? IsStepName(column) : column == options.step_key;
  });
  return header.size() > 1 && has_step ? LogFormat::kCsv : LogFormat::kMegatron;
}

}  // namespace

void LogNotes::NotUnderstood(const std::string& where, absl::string_view why) {
  if (not_understood++ == 0) first_not_understood = absl::StrCat(where, ": ", why);
}

void LogNotes::Skip(const std::string& column, absl::string_view why) {
  if (skipped.size() < kSkippedMax) skipped.emplace(column, why);
}

absl::StatusOr<std::unique_ptr<LogReader>> LogReader::Open(const std::string& path,
                                                           const LogOptions& options,
                                                           LogNotes* notes) {
  FORESHOCK_ASSIGN_OR_RETURN(capture::InputFile file, capture::InputFile::Open(path));
  FORESHOCK_ASSIGN_OR_RETURN(const absl::string_view front,
                             file.Peek(capture::InputFile::kPeekBytesMax));
  FORESHOCK_RETURN_IF_ERROR(RefuseWhatIsNoLog(path, front));
  const LogFormat format =
      options.format == LogFormat::kAuto ? FormatOf(path, front, options) : options.format;
  LogLines lines(std::move(file));
  if (format == LogFormat::kMegatron) return NewMegatronReader(std::move(lines), notes);
  if (format == LogFormat::kJsonl) return NewJsonlLogReader(std::move(lines), options, notes);
  if (format == LogFormat::kJson) return NewJsonLogReader(std::move(lines), options, notes);
  return NewCsvReader(std::move(lines), options, notes);
}

}  // namespace foreshock::cli
