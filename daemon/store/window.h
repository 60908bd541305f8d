// Dyadic windows of steps; a chunk has one each. Two windows are disjoint, or one holds the other.
#pragma once

#include <cstdint>

namespace foreshock::store {

struct Window {
  int64_t first = 0;  // a multiple of 2^exponent
  uint8_t exponent = 0;

  static constexpr uint8_t kExponentMax = 63;

  // Returns the window of 2^exponent steps that holds `step`.
  static constexpr Window Of(int64_t step, uint8_t exponent) {
    return {static_cast<int64_t>(static_cast<uint64_t>(step) & ~Mask(exponent)), exponent};
  }
  constexpr int64_t last() const {
    return static_cast<int64_t>(static_cast<uint64_t>(first) | Mask(exponent));
  }
  constexpr bool Holds(int64_t step) const { return first <= step && step <= last(); }
  friend bool operator==(const Window&, const Window&) = default;

 private:
  static constexpr uint64_t Mask(uint8_t exponent) { return (uint64_t{1} << exponent) - 1; }
};

}  // namespace foreshock::store
