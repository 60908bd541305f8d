#include "client/cli/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace foreshock::cli {
namespace {

constexpr unsigned char kBegin = 0xFE;  // then 'a' + style
constexpr unsigned char kEnd = 0xFF;
constexpr int kStyles = static_cast<int>(Style::kYellowBold) + 1;
constexpr int kMarksMax = 4;  // on one letter

// One step through text: a style mark, a code point, or a byte that is no UTF-8.
struct Piece {
  enum class Kind { kBegin, kEnd, kCharacter, kBadByte };
  Kind kind = Kind::kBadByte;
  absl::string_view bytes{};
  int32_t code = 0;
  Style style = Style::kPlain;
};

Piece PieceAt(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first == kEnd) return {.kind = Piece::Kind::kEnd, .bytes = text.substr(0, 1)};
  if (first == kBegin && text.size() > 1 && text[1] >= 'a' && text[1] < 'a' + kStyles) {
    return {.kind = Piece::Kind::kBegin,
            .bytes = text.substr(0, 2),
            .style = static_cast<Style>(text[1] - 'a')};
  }
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (size <= 0) return {.kind = Piece::Kind::kBadByte, .bytes = text.substr(0, 1)};
  return {.kind = Piece::Kind::kCharacter,
          .bytes = text.substr(0, static_cast<size_t>(size)),
          .code = code};
}

template <typename Take>
void ForEachPiece(absl::string_view text, Take take) {
  while (!text.empty()) {
    const Piece piece = PieceAt(text);
    take(piece);
    text.remove_prefix(piece.bytes.size());
  }
}

bool IsMark(int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME;
}

bool IsVisible(int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

std::string WrittenOut(int32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (code < 0x80) return absl::StrFormat("\\x%02x", code);
  return code < 0x10000 ? absl::StrFormat("\\u%04x", code) : absl::StrFormat("\\U%08x", code);
}

std::string MakePrintable(absl::string_view text, bool line_feeds) {
  std::string out;
  int marks = 0;
  ForEachPiece(text, [&](const Piece& piece) {
    if (piece.kind == Piece::Kind::kBadByte) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(piece.bytes[0]));
      return;
    }
    if (piece.kind == Piece::Kind::kCharacter) {
      marks = IsMark(piece.code) ? marks + 1 : 0;
      const bool good =
          (IsVisible(piece.code) && marks <= kMarksMax) || (line_feeds && piece.code == '\n');
      if (!good) {
        absl::StrAppend(&out, WrittenOut(piece.code));
        return;
      }
    }
    absl::StrAppend(&out, piece.bytes);
  });
  return out;
}

size_t WidthOf(const Piece& piece) {
  if (piece.kind != Piece::Kind::kCharacter) return piece.kind == Piece::Kind::kBadByte ? 1 : 0;
  return static_cast<size_t>(std::max(0, utf8proc_charwidth(piece.code)));
}

// The symbols that this program itself draws with.
constexpr std::pair<absl::string_view, char> kSymbols[] = {
    {"▁", '_'}, {"▂", '.'}, {"▃", ','}, {"▄", '-'}, {"▅", '='}, {"▆", '+'}, {"▇", '*'}, {"█", '#'},
    {"┃", '|'}, {"│", '|'}, {"┊", ':'}, {"─", '-'}, {"━", '='}, {"╌", '-'}, {"┤", '+'}, {"┼", '+'},
    {"┬", '+'}, {"└", '+'}, {"▲", '^'}, {"▸", '>'}, {"→", '>'}, {"✓", '+'}, {"✗", 'x'}, {"…", '~'},
    {"·", '.'}, {"–", '-'}, {"×", 'x'}, {"↑", '^'}, {"↓", 'v'},
};

}  // namespace

std::string Painted(Style style, absl::string_view text) {
  if (style == Style::kPlain || text.empty()) return std::string(text);
  const char begin[] = {static_cast<char>(kBegin),
                        static_cast<char>('a' + static_cast<int>(style))};
  const char end = static_cast<char>(kEnd);
  return absl::StrCat(absl::string_view(begin, 2), text, absl::string_view(&end, 1));
}

std::string Printable(absl::string_view text) { return MakePrintable(text, false); }

std::string PrintableLines(absl::string_view text) { return MakePrintable(text, true); }

size_t DisplayWidth(absl::string_view text) {
  size_t width = 0;
  ForEachPiece(text, [&](const Piece& piece) { width += WidthOf(piece); });
  return width;
}

std::string Fit(absl::string_view text, size_t columns) {
  if (DisplayWidth(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::string out;
  size_t width = 0;
  bool painted = false;
  bool full = false;
  ForEachPiece(text, [&](const Piece& piece) {
    full = full || width + WidthOf(piece) > columns - 1;
    if (full) return;
    width += WidthOf(piece);
    if (piece.kind == Piece::Kind::kBegin) painted = true;
    if (piece.kind == Piece::Kind::kEnd) painted = false;
    absl::StrAppend(&out, piece.bytes);
  });
  absl::StrAppend(&out, "…");
  if (painted) out.push_back(static_cast<char>(kEnd));
  return out;
}

std::string PadRight(absl::string_view text, size_t columns) {
  std::string out = Fit(text, columns);
  out.append(columns - DisplayWidth(out), ' ');
  return out;
}

std::string PadLeft(absl::string_view text, size_t columns) {
  const std::string out = Fit(text, columns);
  return absl::StrCat(std::string(columns - DisplayWidth(out), ' '), out);
}

std::vector<std::string> Wrap(absl::string_view text, size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) lines.push_back(std::exchange(line, ""));
  };
  for (const absl::string_view raw :
       absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    const std::string word = Printable(raw);
    if (!line.empty() && DisplayWidth(line) + 1 + DisplayWidth(word) > columns) end_line();
    if (!line.empty()) line += " ";
    ForEachPiece(word, [&](const Piece& piece) {
      if (!line.empty() && DisplayWidth(line) + WidthOf(piece) > columns) end_line();
      absl::StrAppend(&line, piece.bytes);
    });
  }
  end_line();
  return lines;
}

std::vector<Span> Spans(absl::string_view text) {
  std::vector<Span> spans;
  Style style = Style::kPlain;
  ForEachPiece(text, [&](const Piece& piece) {
    if (piece.kind == Piece::Kind::kBegin || piece.kind == Piece::Kind::kEnd) {
      style = piece.style;
      return;
    }
    if (spans.empty() || spans.back().style != style) spans.push_back({style, ""});
    absl::StrAppend(&spans.back().text, piece.bytes);
  });
  return spans;
}

std::string ToAscii(absl::string_view text) {
  std::string out;
  ForEachPiece(text, [&](const Piece& piece) {
    if (piece.kind != Piece::Kind::kCharacter || piece.code < 0x80) {
      absl::StrAppend(&out, piece.bytes);
      return;
    }
    const auto* const symbol =
        std::find_if(std::begin(kSymbols), std::end(kSymbols),
                     [&](const auto& known) { return known.first == piece.bytes; });
    if (symbol != std::end(kSymbols)) {
      out.push_back(symbol->second);
    } else {
      absl::StrAppend(&out, WrittenOut(piece.code));
    }
  });
  return out;
}

}  // namespace foreshock::cli
