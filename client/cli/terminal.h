// What the output is: a terminal with colours, or a file or pipe without. NO_COLOR, TERM=dumb and
// locales that are not UTF-8 are respected.
//
//   const Terminal out(stdout);
//   Say("%s\n", out.Paint(Style::kRed, "down"));
#pragma once

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/text.h"

namespace foreshock::cli {

// Immutable.
class Terminal {
 public:
  explicit Terminal(FILE* stream);
  // For tests: a stream that is, or is not, a terminal with colours.
  Terminal(bool is_tty, bool color, int columns, bool utf8 = true)
      : is_tty_(is_tty), color_(color), utf8_(utf8), columns_(columns) {}

  bool is_tty() const { return is_tty_; }
  bool color() const { return color_; }
  // False if LC_ALL, LC_CTYPE or LANG, the first that is set, names another encoding. Without any
  // of them true: containers have none, and their terminals are UTF-8.
  bool utf8() const { return utf8_; }
  int columns() const { return columns_; }
  // `text` in the style where colours are shown, else as it is. To be printed with say.h.
  std::string Paint(Style style, absl::string_view text) const;
  // What is written to the stream for printable text: colours for styles, ASCII where need be.
  std::string Encode(absl::string_view text) const;

 private:
  bool is_tty_;
  bool color_;
  bool utf8_;
  int columns_;
};

}  // namespace foreshock::cli
