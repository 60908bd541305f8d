// A number of bytes as text for people: "812 B", "12.4 MiB", "1.5 GiB".
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"

namespace foreshock::base {

// Three significant digits.
inline std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  auto value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat(value < 999.5 ? "%.3g %s" : "%.0f %s", value, unit);
}

}  // namespace foreshock::base
