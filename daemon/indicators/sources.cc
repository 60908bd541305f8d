#include "daemon/indicators/sources.h"

#include <xxhash.h>

namespace foreshock::indicators {
namespace {

constexpr uint64_t kDerivedBit = uint64_t{1} << 63;

}  // namespace

uint64_t DerivedTokenShard(const v1::Coordinates& coordinates) {
  return kDerivedBit | (uint64_t{coordinates.data()} & 0x7fffffff) << 32 | coordinates.context();
}

uint64_t ExplicitTokenShard(uint64_t token_shard) { return token_shard & ~kDerivedBit; }

uint64_t Fingerprint(std::initializer_list<absl::string_view> parts) {
  uint64_t hash = 0;
  for (absl::string_view part : parts) {
    hash = XXH3_64bits_withSeed(part.data(), part.size(), hash);
  }
  return hash;
}

uint64_t RowRangeId(uint32_t begin, uint32_t count) { return uint64_t{begin} << 32 | count; }

}  // namespace foreshock::indicators
