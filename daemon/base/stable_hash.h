// A hash that is the same on every machine and in every version.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace foreshock::base {

// FNV-1a. O(n).
inline uint64_t StableHash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace foreshock::base
