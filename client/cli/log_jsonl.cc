// One JSON object a line.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/log_cells.h"
#include "client/cli/log_formats.h"
#include "client/cli/log_json_cells.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

class JsonlLogReader final : public LogReader {
 public:
  JsonlLogReader(LogLines lines, const LogOptions& options, LogNotes* notes)
      : LogReader(std::move(lines), notes), columns_(options, notes) {}

  absl::StatusOr<bool> Next(LogRow* row) override {
    while (true) {
      FORESHOCK_ASSIGN_OR_RETURN(const bool more, lines_.Next());
      if (!more) return false;
      if (absl::StripAsciiWhitespace(lines_.line()).empty()) continue;
      size_t byte = 0;
      const absl::Status status = ReadRow(row, &byte);
      if (status.ok()) return true;
      notes_.NotUnderstood(lines_.At(byte), status.message());
    }
  }

  const char* format_name() const override { return "JSONL"; }

 private:
  absl::Status ReadRow(LogRow* row, size_t* byte) {
    if (lines_.cut()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the line is longer than ", LogLines::kLineBytesMax, " bytes"));
    }
    const QuotedJson quoted = QuoteNonFinite(lines_.line());
    LogJson object;
    try {
      object = LogJson::parse(quoted.text);
    } catch (const LogJson::parse_error& error) {
      *byte = quoted.Given(error.byte == 0 ? 0 : error.byte - 1);
      // Behind "[json.exception...] parse error at line 1, column 5: ".
      const std::string what = error.what();
      const size_t reason = what.find(": ");
      return absl::InvalidArgumentError(
          absl::StrCat("no JSON: ", reason == std::string::npos ? what : what.substr(reason + 2),
                       "; allowed is one object a line"));
    } catch (const LogJson::exception& error) {  // a number out of range
      return absl::InvalidArgumentError(error.what());
    }
    if (!object.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the line is ", object.type_name(), "; allowed is one object a line"));
    }
    const std::vector<LogCell> cells = CellsOf(object, lines_.line());
    std::vector<std::string> columns;
    for (const LogCell& cell : cells) columns.push_back(cell.column);
    FORESHOCK_RETURN_IF_ERROR(columns_.FindStep(columns));
    row->where = lines_.At(0);
    return columns_.Fill(cells, row, byte);
  }

  LogColumns columns_;
};

}  // namespace

std::unique_ptr<LogReader> NewJsonlLogReader(LogLines lines, const LogOptions& options,
                                             LogNotes* notes) {
  return std::make_unique<JsonlLogReader>(std::move(lines), options, notes);
}

}  // namespace foreshock::cli
