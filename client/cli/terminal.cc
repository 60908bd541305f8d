#include "client/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (!EnvironmentSet(name)) continue;
    const std::string locale = absl::AsciiStrToLower(std::getenv(name));
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return true;
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
      utf8_(LocaleIsUtf8()),
      columns_(100) {
  winsize size{};
  if (is_tty_ && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns_ = size.ws_col;
  }
}

std::string Terminal::Paint(Style style, absl::string_view text) const {
  return color_ ? Painted(style, text) : std::string(text);
}

std::string Terminal::Encode(absl::string_view text) const {
  std::string out;
  for (const Span& span : Spans(text)) {
    const std::string shown = utf8_ ? span.text : ToAscii(span.text);
    if (color_ && span.style != Style::kPlain) {
      absl::StrAppend(&out, "\033[", Code(span.style), "m", shown, "\033[0m");
    } else {
      absl::StrAppend(&out, shown);
    }
  }
  return out;
}

}  // namespace foreshock::cli
