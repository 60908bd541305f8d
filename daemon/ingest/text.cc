#include "daemon/ingest/text.h"

#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace foreshock::ingest {
namespace {

// The byte at which `text` stops being UTF-8 without control characters; its size if it never does.
size_t FirstBadByte(absl::string_view text, bool line_breaks) {
  size_t i = 0;
  while (i < text.size()) {
    const auto at = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
    const uint8_t lead = at(i);
    if (lead < 0x80) {
      const bool breaks = lead == '\n' || lead == '\r' || lead == '\t';
      if ((lead < 0x20 && !(breaks && line_breaks)) || lead == 0x7f) return i;
      ++i;
      continue;
    }
    const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || i + size > text.size()) return i;
    uint32_t code = lead & (0xff >> (size + 1));
    for (size_t k = 1; k < size; ++k) {
      if ((at(i + k) & 0xc0) != 0x80) return i;
      code = code << 6 | (at(i + k) & 0x3f);
    }
    // Over-long forms, surrogates, beyond Unicode, C1 controls.
    if ((size == 3 && code < 0x800) || (size == 4 && (code < 0x10000 || code > 0x10ffff)) ||
        (code >= 0xd800 && code <= 0xdfff) || code < 0xa0) {
      return i;
    }
    i += size;
  }
  return i;
}

}  // namespace

std::string Quote(absl::string_view text) {
  const bool cut = text.size() > 64;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 64)), cut ? "..." : "", "\"");
}

absl::Status CheckName(const Field& field, absl::string_view text, size_t low_bytes,
                       size_t high_bytes) {
  if (text.size() < low_bytes || text.size() > high_bytes) {
    return field.Refuse(absl::StrCat(text.size(), " bytes"),
                        absl::StrCat(low_bytes, "..", high_bytes, " bytes"));
  }
  if (const size_t bad = FirstBadByte(text, /*line_breaks=*/false); bad < text.size()) {
    return field.Refuse(absl::StrCat(Quote(text), ", bad at byte ", bad),
                        "UTF-8 without control characters");
  }
  return absl::OkStatus();
}

absl::Status CheckText(const Field& field, absl::string_view text, size_t high_bytes) {
  if (text.size() > high_bytes) {
    return field.Refuse(absl::StrCat(text.size(), " bytes"),
                        absl::StrCat("at most ", high_bytes, " bytes"));
  }
  if (const size_t bad = FirstBadByte(text, /*line_breaks=*/true); bad < text.size()) {
    return field.Refuse(absl::StrCat(Quote(text), ", bad at byte ", bad),
                        "UTF-8 without control characters but line breaks and tabs");
  }
  return absl::OkStatus();
}

}  // namespace foreshock::ingest
