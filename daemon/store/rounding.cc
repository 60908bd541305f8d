#include "daemon/store/rounding.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace foreshock::store {

double RoundTo(double precision, double value) {
  constexpr int kFractionBits = 52;
  // Half a unit in the last of `kept` places is 2^-(kept + 1).
  const int kept = precision > 0 ? -std::ilogb(precision) - 1 : kFractionBits;
  if (kept >= kFractionBits || !std::isnormal(value)) return value;
  const int dropped = kFractionBits - (kept > 0 ? kept : 0);
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t odd = (bits >> dropped) & 1;
  const uint64_t half = (uint64_t{1} << (dropped - 1)) - 1 + odd;
  const auto rounded = std::bit_cast<double>(((bits + half) >> dropped) << dropped);
  return std::isfinite(rounded) ? rounded : value;
}

}  // namespace foreshock::store
