#include "client/cli/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace foreshock::cli {
namespace {

constexpr size_t kGap = 2;        // between columns
constexpr size_t kNarrowest = 8;  // that a column of text is made

}  // namespace

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

// Takes columns from the widest one that holds text until `widths` and the gaps fit into `columns`,
// or none of them is wider than kNarrowest.
void Table::Shrink(size_t columns, std::vector<size_t>* widths) const {
  size_t total = kGap * (widths->size() - 1);
  for (const size_t width : *widths) total += width;
  while (total > columns) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < widths->size(); ++c) {
      size_t& width = (*widths)[c];
      const size_t least = std::max(kNarrowest, DisplayWidth(columns_[c].title));
      if (columns_[c].align == Align::kRight || width <= least) continue;
      if (widest == nullptr || width > *widest) widest = &width;
    }
    if (widest == nullptr) return;
    --*widest;
    --total;
  }
}

std::string Table::Render(const Terminal& terminal, size_t indent) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(width);
  }
  // What reads a pipe wants whole names.
  if (terminal.is_tty()) {
    Shrink(static_cast<size_t>(std::max(0, terminal.columns())) - std::min<size_t>(indent, 40),
           &widths);
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out(indent, ' ');
    for (size_t c = 0; c < cells.size(); ++c) {
      const bool right = columns_[c].align == Align::kRight;
      absl::StrAppend(&out, right ? PadLeft(cells[c], widths[c]) : PadRight(cells[c], widths[c]));
      if (c + 1 < cells.size()) out.append(kGap, ' ');
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
