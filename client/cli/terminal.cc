#include "client/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace foreshock::cli {
namespace {

bool EnvironmentSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool DumbTerminal() {
  const char* term = std::getenv("TERM");
  return term == nullptr || absl::string_view(term) == "dumb" || *term == '\0';
}

absl::string_view Code(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "1";
    case Style::kDim:
      return "2";
    case Style::kRed:
      return "31";
    case Style::kGreen:
      return "32";
    case Style::kYellow:
      return "33";
    case Style::kCyan:
      return "36";
    case Style::kRedBold:
      return "1;31";
    case Style::kYellowBold:
      return "1;33";
  }
  return "";
}

}  // namespace

Terminal::Terminal(FILE* stream)
    : is_tty_(isatty(fileno(stream)) == 1),
      color_(is_tty_ && !EnvironmentSet("NO_COLOR") && !DumbTerminal()),
      columns_(100) {
  winsize size{};
  if (is_tty_ && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns_ = size.ws_col;
  }
}

std::string Terminal::Paint(Style style, absl::string_view text) const {
  if (!color_ || style == Style::kPlain || text.empty()) return std::string(text);
  return absl::StrCat("\033[", Code(style), "m", text, "\033[0m");
}

size_t DisplayWidth(absl::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {  // to the letter that ends the sequence
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      ++width;
    }
  }
  return width;
}

}  // namespace foreshock::cli
