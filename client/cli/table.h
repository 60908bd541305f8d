// A table for people: columns as wide as their content, two blanks apart, no frame. On a terminal
// it is no wider than that: the widest texts are cut.
//
//   Table table({{"run"}, {"last step", Align::kRight}});
//   table.AddRow({"exp-42", "1499"});
//   SayLines(table.Render(Terminal(stdout)));
#pragma once

#include <string>
#include <vector>

#include "client/cli/terminal.h"

namespace foreshock::cli {

enum class Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell a column; cells may be painted, and are made printable.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // The titles in capitals, then the rows, each line ended by a line feed and free of trailing
  // blanks; `indent` blanks before each. For SayLines.
  std::string Render(const Terminal& terminal, size_t indent = 0) const;

 private:
  void Shrink(size_t columns, std::vector<size_t>* widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace foreshock::cli
