// A terminal that a program has taken over: lines in, keys out. The rest of ncurses stays in
// screen.cc, whose macros are too common words.
//
//   FORESHOCK_ASSIGN_OR_RETURN(auto screen, Screen::Open());
//   screen->Draw(view.Draw(news, screen->size()));
//   if (auto key = screen->Key(absl::Milliseconds(100))) view.Press(*key);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/terminal.h"
#include "client/cli/top_view.h"

namespace foreshock::cli {

// For one thread; at most one at a time. The terminal is given back when it is destroyed.
class Screen {
 public:
  // FailedPrecondition if stdin or stdout is no terminal, or TERM names none that is known.
  static absl::StatusOr<std::unique_ptr<Screen>> Open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  TopSize size() const;
  // Painted, printable lines; what does not fit is cut.
  void Draw(const std::vector<std::string>& lines);
  // Waits for a key at most so long. Nothing for other keys and after a change of the size.
  std::optional<TopKey> Key(absl::Duration timeout);
  // SIGINT, SIGTERM or SIGHUP has come.
  bool interrupted() const;

 private:
  explicit Screen(void* screen) : screen_(screen), terminal_(stdout) {}

  void* const screen_;  // ncurses' SCREEN
  const Terminal terminal_;
};

}  // namespace foreshock::cli
