// Integers in the store's own rows: little-endian of a fixed width, and varints in their shortest
// form. Takers cut what they read off the front of `in` and answer false if it is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"

namespace foreshock::store {

inline constexpr uint64_t kU32Max = std::numeric_limits<uint32_t>::max();
inline constexpr uint64_t kU64Max = std::numeric_limits<uint64_t>::max();

void PutFixed(uint64_t value, int bytes, std::string* out);
bool TakeFixed(size_t bytes, absl::string_view* in, uint64_t* value);

// Also false for a form that is longer than needed and for a value above `max`.
void PutVarint(uint64_t value, std::string* out);
bool TakeVarint(uint64_t max, absl::string_view* in, uint64_t* value);

// Maps small numbers of either sign to small ones: 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
constexpr uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

}  // namespace foreshock::store
