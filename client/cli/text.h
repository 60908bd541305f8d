// Text that is safe to show: whatever a daemon, a file or a person put into a name, it cannot move
// the cursor, hide or reorder what stands beside it, or break a line. Machines get the exact text
// through --output=json.
//
//   Printable("a\u202eb")       "a\\u202eb", the eight characters that say so
//   Fit("a long name", 6)       "a lon…"
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace foreshock::cli {

enum class Style { kPlain, kBold, kDim, kRed, kGreen, kYellow, kCyan, kRedBold, kYellowBold };

// `text` between two bytes that are in no UTF-8 text, so that no name can claim a style: what
// comes over the wire is UTF-8 or refused. Terminal turns them into colours, or leaves them out.
std::string Painted(Style style, absl::string_view text);

// `text` with everything that is no visible character written out: "\n", "\x1b", "\u202e"
// (controls, bidirectional and invisible format characters, unassigned ones, the fifth and later
// marks on one letter), bytes that are no UTF-8 as "\xff". Painted parts stay painted. Idempotent.
std::string Printable(absl::string_view text);

// The same, in which line feeds separate lines.
std::string PrintableLines(absl::string_view text);

// Columns that printable `text` takes: two for a wide character, none for a mark or a style.
size_t DisplayWidth(absl::string_view text);

// Printable `text` in at most `columns`; what is cut off is an ellipsis.
std::string Fit(absl::string_view text, size_t columns);
// The same, filled with blanks to exactly `columns`.
std::string PadRight(absl::string_view text, size_t columns);
std::string PadLeft(absl::string_view text, size_t columns);

// Words of `text`, made printable, in lines of at most `columns` (at least 1); a word that is
// longer is broken.
std::vector<std::string> Wrap(absl::string_view text, size_t columns);

// `text` in pieces of one style each. Painting does not nest: an inner style ends the outer one.
struct Span {
  Style style = Style::kPlain;
  std::string text;
};
std::vector<Span> Spans(absl::string_view text);

// For terminals that are not UTF-8: our own symbols as letters of the same width, what else is not
// ASCII written out.
std::string ToAscii(absl::string_view text);

}  // namespace foreshock::cli
