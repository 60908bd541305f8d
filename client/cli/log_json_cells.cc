#include "client/cli/log_json_cells.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace foreshock::cli {
namespace {

constexpr int kDepthMax = 16;

LogCell CellOf(const std::string& column, const std::string& key, const LogJson& value,
               absl::string_view line) {
  LogCell cell;
  cell.column = column;
  const size_t byte = line.find(absl::StrCat("\"", key, "\""));
  cell.byte = byte == absl::string_view::npos ? 0 : byte;
  if (value.is_number() || value.is_boolean()) {
    cell.kind = LogCell::Kind::kNumber;
    cell.number = value.is_number() ? value.get<double>() : (value.get<bool>() ? 1 : 0);
  } else if (value.is_string()) {
    // Some loggers write all numbers as strings.
    cell = CellOfText(column, value.get<std::string>(), cell.byte);
  } else if (!value.is_null()) {
    cell.kind = LogCell::Kind::kText;
    cell.text = value.type_name();
    cell.why = value.is_array() ? "an array; allowed are numbers"
                                : absl::StrCat("an object more than ", kDepthMax, " deep");
  }
  return cell;
}

void Flatten(const LogJson& object, const std::string& above, int depth, absl::string_view line,
             std::vector<LogCell>* cells) {
  for (const auto& [key, value] : object.items()) {
    const std::string column = absl::StrCat(above, key);
    if (value.is_object() && depth < kDepthMax) {
      Flatten(value, absl::StrCat(column, "/"), depth + 1, line, cells);
    } else {
      cells->push_back(CellOf(column, key, value, line));
    }
  }
}

}  // namespace

size_t QuotedJson::Given(size_t at) const {
  size_t added = 0;
  for (const size_t begin : quoted) added += begin < at ? 2 : 0;
  return at - std::min(at, added);
}

QuotedJson QuoteNonFinite(absl::string_view json) {
  QuotedJson out;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (in_string && json[i] == '\\' && i + 1 < json.size()) {
      out.text += json[i++];
    } else if (json[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      absl::string_view word;
      for (const absl::string_view w : {"NaN", "Infinity", "-Infinity"}) {
        if (absl::StartsWith(json.substr(i), w)) word = w;
      }
      if (!word.empty()) {
        out.quoted.push_back(out.text.size());
        absl::StrAppend(&out.text, "\"", word, "\"");
        i += word.size() - 1;
        continue;
      }
    }
    out.text += json[i];
  }
  return out;
}

std::vector<LogCell> CellsOf(const LogJson& object, absl::string_view line) {
  std::vector<LogCell> cells;
  Flatten(object, "", 1, line, &cells);
  return cells;
}

}  // namespace foreshock::cli
