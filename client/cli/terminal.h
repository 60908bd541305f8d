// What the output is: a terminal with colours, or a file or pipe without. NO_COLOR and
// TERM=dumb are respected.
//
//   const Terminal out(stdout);
//   std::puts(out.Paint(Style::kRed, "down").c_str());
#pragma once

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace foreshock::cli {

enum class Style { kPlain, kBold, kDim, kRed, kGreen, kYellow, kCyan, kRedBold, kYellowBold };

// Immutable.
class Terminal {
 public:
  explicit Terminal(FILE* stream);
  // For tests: a stream that is, or is not, a terminal with colours.
  Terminal(bool is_tty, bool color, int columns)
      : is_tty_(is_tty), color_(color), columns_(columns) {}

  bool is_tty() const { return is_tty_; }
  int columns() const { return columns_; }
  // `text` in the style where colours are shown, else as it is.
  std::string Paint(Style style, absl::string_view text) const;

 private:
  bool is_tty_;
  bool color_;
  int columns_;
};

// Columns that UTF-8 `text` takes, counting a code point as one and escape sequences as none.
size_t DisplayWidth(absl::string_view text);

}  // namespace foreshock::cli
