// JSON as training programs write it: objects become the cells of a row, and the words NaN,
// Infinity and -Infinity, which Python's json module writes although JSON has no such words, are
// read as what they mean.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/log_cells.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {

using LogJson = nlohmann::ordered_json;  // columns in the order of the file

// The text with bare NaN, Infinity and -Infinity in quotes.
struct QuotedJson {
  std::string text;
  std::vector<size_t> quoted;  // where each of the words begins in `text`

  // Byte of the given text that byte `at` of `text` was.
  size_t Given(size_t at) const;
};
QuotedJson QuoteNonFinite(absl::string_view json);

// {"train": {"loss": 2}} is the column train/loss. `line` is the text of the object, in which a
// cell's key is looked up for its place; it may be empty.
std::vector<LogCell> CellsOf(const LogJson& object, absl::string_view line);

}  // namespace foreshock::cli
