// The one way by which text for people leaves the program. What fills the format is made printable,
// so no name from a daemon, a file or a rule can write over, hide or forge what stands beside it.
//
//   Say("%s: %d runs\n", out.Paint(Style::kBold, server), runs);
//   SayLines(table.Render(out));
//   SayExact(json);
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/cli/text.h"

namespace foreshock::cli {
namespace say_internal {

template <typename T>
auto Argument(const T& value) {
  if constexpr (std::is_convertible_v<const T&, absl::string_view>) {
    return Printable(value);
  } else {
    return value;
  }
}
template <typename T>
using ArgumentType = decltype(Argument(std::declval<const T&>()));

void WriteOut(absl::string_view text);
void WriteError(absl::string_view text);

}  // namespace say_internal

// To stdout, as absl::StrFormat has it. Text arguments are one line each, whatever is in them.
template <typename... Args>
void Say(const absl::FormatSpec<say_internal::ArgumentType<Args>...>& format, const Args&... args) {
  say_internal::WriteOut(absl::StrFormat(format, say_internal::Argument(args)...));
}
// To stderr.
template <typename... Args>
void SayError(const absl::FormatSpec<say_internal::ArgumentType<Args>...>& format,
              const Args&... args) {
  say_internal::WriteError(absl::StrFormat(format, say_internal::Argument(args)...));
}

// To stderr: a message of one or several lines, as an error may be.
void SayErrorLines(absl::string_view lines);

// To stdout: lines that end with a line feed each, such as a table's. Their makers see to it that
// no text in them has a line feed of its own.
void SayLines(absl::string_view lines);

// To stdout, for machines: JSON, CSV, scripts. As it is.
void SayExact(absl::string_view text);

}  // namespace foreshock::cli
