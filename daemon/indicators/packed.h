// Packed lower triangles by rows: (0,0), (1,0), (1,1), (2,0), ...
#pragma once

#include <cstddef>
#include <vector>

namespace foreshock::indicators {

inline size_t PackedSize(size_t n) { return n * (n + 1) / 2; }

// Full column-major n x n, both triangles.
template <typename Values>
std::vector<double> Unpack(const Values& packed, size_t n) {
  std::vector<double> full(n * n);
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      full[i + j * n] = full[j + i * n] = packed[static_cast<int>(at++)];
    }
  }
  return full;
}

}  // namespace foreshock::indicators
