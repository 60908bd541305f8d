// One JSON object a line. NaN, Infinity and -Infinity, which Python's json module writes although
// JSON has no such words, are read as what they mean.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/log_cells.h"
#include "client/cli/log_formats.h"
#include "daemon/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

using Json = nlohmann::ordered_json;  // columns in the order of the file

constexpr int kDepthMax = 16;

// The text with bare NaN, Infinity and -Infinity in quotes.
struct QuotedText {
  std::string text;
  std::vector<size_t> quoted;  // where each of the words begins in `text`

  // Byte of the line that byte `at` of `text` was.
  size_t InLine(size_t at) const {
    size_t added = 0;
    for (const size_t begin : quoted) added += begin < at ? 2 : 0;
    return at - std::min(at, added);
  }
};

QuotedText QuoteNonFinite(absl::string_view line) {
  QuotedText out;
  bool in_string = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (in_string && line[i] == '\\' && i + 1 < line.size()) {
      out.text += line[i++];
    } else if (line[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      absl::string_view word;
      for (const absl::string_view w : {"NaN", "Infinity", "-Infinity"}) {
        if (absl::StartsWith(line.substr(i), w)) word = w;
      }
      if (!word.empty()) {
        out.quoted.push_back(out.text.size());
        absl::StrAppend(&out.text, "\"", word, "\"");
        i += word.size() - 1;
        continue;
      }
    }
    out.text += line[i];
  }
  return out;
}

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
    const QuotedText quoted = QuoteNonFinite(lines_.line());
    Json object;
    try {
      object = Json::parse(quoted.text);
    } catch (const Json::parse_error& error) {
      *byte = quoted.InLine(error.byte == 0 ? 0 : error.byte - 1);
      // Behind "[json.exception...] parse error at line 1, column 5: ".
      const std::string what = error.what();
      const size_t reason = what.find(": ");
      return absl::InvalidArgumentError(
          absl::StrCat("no JSON: ", reason == std::string::npos ? what : what.substr(reason + 2),
                       "; allowed is one object a line"));
    } catch (const Json::exception& error) {  // a number out of range
      return absl::InvalidArgumentError(error.what());
    }
    if (!object.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the line is ", object.type_name(), "; allowed is one object a line"));
    }
    std::vector<LogCell> cells;
    Flatten(object, "", 1, &cells);
    std::vector<std::string> columns;
    for (const LogCell& cell : cells) columns.push_back(cell.column);
    FORESHOCK_RETURN_IF_ERROR(columns_.FindStep(columns));
    row->where = lines_.At(0);
    return columns_.Fill(cells, row, byte);
  }

  // {"train": {"loss": 2}} is the column train/loss.
  void Flatten(const Json& object, const std::string& above, int depth,
               std::vector<LogCell>* cells) const {
    for (const auto& [key, value] : object.items()) {
      const std::string column = absl::StrCat(above, key);
      if (value.is_object() && depth < kDepthMax) {
        Flatten(value, absl::StrCat(column, "/"), depth + 1, cells);
      } else {
        cells->push_back(CellOf(column, key, value));
      }
    }
  }

  LogCell CellOf(const std::string& column, const std::string& key, const Json& value) const {
    LogCell cell;
    cell.column = column;
    const size_t byte = lines_.line().find(absl::StrCat("\"", key, "\""));
    cell.byte = byte == std::string::npos ? 0 : byte;
    if (value.is_number() || value.is_boolean()) {
      cell.kind = LogCell::Kind::kNumber;
      cell.number = value.is_number() ? value.get<double>() : (value.get<bool>() ? 1 : 0);
    } else if (value.is_string()) {
      // "NaN" is a value; "12" is text, because its writer had numbers and chose not to use one.
      cell = CellOfText(column, value.get<std::string>(), cell.byte);
      if (cell.kind == LogCell::Kind::kNumber && std::isfinite(cell.number)) {
        cell.kind = LogCell::Kind::kText;
        cell.text = value.get<std::string>();
      }
    } else if (!value.is_null()) {
      cell.kind = LogCell::Kind::kText;
      cell.text = value.type_name();
      cell.why = value.is_array() ? "an array; allowed are numbers"
                                  : absl::StrCat("an object more than ", kDepthMax, " deep");
    }
    return cell;
  }

  LogColumns columns_;
};

}  // namespace

std::unique_ptr<LogReader> NewJsonlLogReader(LogLines lines, const LogOptions& options,
                                             LogNotes* notes) {
  return std::make_unique<JsonlLogReader>(std::move(lines), options, notes);
}

}  // namespace foreshock::cli
