#include "client/cli/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace foreshock::cli {

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::Render(const Terminal& terminal, size_t indent) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(width);
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out(indent, ' ');
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string blanks(widths[c] - DisplayWidth(cells[c]), ' ');
      if (columns_[c].align == Align::kRight) {
        absl::StrAppend(&out, blanks, cells[c]);
      } else {
        absl::StrAppend(&out, cells[c], blanks);
      }
      if (c + 1 < cells.size()) out += "  ";
    }
    out.erase(out.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, out, "\n");
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    titles.push_back(terminal.Paint(Style::kDim, absl::AsciiStrToUpper(column.title)));
  }
  line(titles);
  for (const auto& row : rows_) line(row);
  return text;
}

}  // namespace foreshock::cli
