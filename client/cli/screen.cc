#include "client/cli/screen.h"

#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

// Last: it defines OK, ERR, timeout and others as macros.
#define NCURSES_NOMACROS
#include <curses.h>

namespace foreshock::cli {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void OnInterrupt(int) { interrupt_seen = 1; }

// What Terminal says of UTF-8 holds for ncurses too, which asks the C library.
void SetLocale(const Terminal& terminal) {
  std::setlocale(LC_CTYPE, "");
  if (terminal.utf8() && MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

enum ColorPair : short { kRedPair = 1, kGreenPair, kYellowPair, kCyanPair };

attr_t AttributesOf(Style style, bool color) {
  const auto pair = [color](ColorPair number) {
    return color ? static_cast<attr_t>(COLOR_PAIR(number)) : static_cast<attr_t>(A_NORMAL);
  };
  switch (style) {
    case Style::kPlain:
      return A_NORMAL;
    case Style::kBold:
      return A_BOLD;
    case Style::kDim:
      return A_DIM;
    case Style::kRed:
      return pair(kRedPair);
    case Style::kGreen:
      return pair(kGreenPair);
    case Style::kYellow:
      return pair(kYellowPair);
    case Style::kCyan:
      return pair(kCyanPair);
    case Style::kRedBold:
      return pair(kRedPair) | A_BOLD;
    case Style::kYellowBold:
      return pair(kYellowPair) | A_BOLD;
  }
  return A_NORMAL;
}

std::optional<TopKey> KeyOf(int code) {
  switch (code) {
    case KEY_UP:
    case 'k':
      return TopKey::kUp;
    case KEY_DOWN:
    case 'j':
      return TopKey::kDown;
    case KEY_PPAGE:
      return TopKey::kPageUp;
    case KEY_NPAGE:
    case ' ':
      return TopKey::kPageDown;
    case KEY_HOME:
    case 'g':
      return TopKey::kHome;
    case KEY_END:
    case 'G':
      return TopKey::kEnd;
    case KEY_ENTER:
    case KEY_RIGHT:
    case '\n':
    case '\r':
    case 'l':
      return TopKey::kEnter;
    case KEY_LEFT:
    case KEY_BACKSPACE:
    case 27:   // escape
    case 127:  // backspace of many terminals
    case 'h':
      return TopKey::kBack;
    case KEY_F(1):
    case '?':
      return TopKey::kHelp;
    case 'q':
    case 'Q':
      return TopKey::kQuit;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Screen>> Screen::Open() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    return absl::FailedPreconditionError(
        "this is no terminal; --once prints what there is and ends");
  }
  SetLocale(Terminal(stdout));
  SCREEN* screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr) {
    const char* term = std::getenv("TERM");
    return absl::FailedPreconditionError(absl::StrCat(
        "TERM=", term == nullptr ? "" : term,
        " names no terminal that is known here; --once prints what there is and ends"));
  }
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    action.sa_handler = OnInterrupt;
    sigaction(number, &action, nullptr);
  }
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
  auto opened = std::unique_ptr<Screen>(new Screen(screen));
  if (opened->terminal_.color() && has_colors()) {
    start_color();
    use_default_colors();
    init_pair(kRedPair, COLOR_RED, -1);
    init_pair(kGreenPair, COLOR_GREEN, -1);
    init_pair(kYellowPair, COLOR_YELLOW, -1);
    init_pair(kCyanPair, COLOR_CYAN, -1);
  }
  return opened;
}

Screen::~Screen() {
  endwin();
  delscreen(static_cast<SCREEN*>(screen_));
}

TopSize Screen::size() const {
  return {.rows = static_cast<size_t>(std::max(1, getmaxy(stdscr))),
          .columns = static_cast<size_t>(std::max(1, getmaxx(stdscr)))};
}

void Screen::Draw(const std::vector<std::string>& lines) {
  const TopSize room = size();
  erase();
  for (size_t y = 0; y < std::min(lines.size(), room.rows); ++y) {
    move(static_cast<int>(y), 0);
    for (const Span& span : Spans(Fit(lines[y], room.columns))) {
      attrset(static_cast<int>(AttributesOf(span.style, terminal_.color())));
      addstr((terminal_.utf8() ? span.text : ToAscii(span.text)).c_str());
    }
  }
  attrset(A_NORMAL);
  refresh();
}

std::optional<TopKey> Screen::Key(absl::Duration timeout) {
  wtimeout(stdscr, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  return KeyOf(getch());
}

bool Screen::interrupted() const { return interrupt_seen != 0; }

}  // namespace foreshock::cli
