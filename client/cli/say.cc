#include "client/cli/say.h"

#include <cstdio>

#include "client/cli/terminal.h"

namespace foreshock::cli {
namespace {

void Write(absl::string_view text, FILE* stream) {
  const std::string bytes = Terminal(stream).Encode(text);
  std::fwrite(bytes.data(), 1, bytes.size(), stream);
}

}  // namespace

void say_internal::WriteOut(absl::string_view text) { Write(text, stdout); }

void say_internal::WriteError(absl::string_view text) { Write(text, stderr); }

void SayLines(absl::string_view lines) { Write(PrintableLines(lines), stdout); }

void SayErrorLines(absl::string_view lines) { Write(PrintableLines(lines), stderr); }

void SayExact(absl::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace foreshock::cli
