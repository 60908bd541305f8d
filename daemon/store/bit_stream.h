// Bits in a byte string, the lowest of a byte first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/base/attributes.h"
#include "absl/strings/string_view.h"
#include "daemon/store/bytes.h"

namespace foreshock::store {

// Appends to a string. Finish() pads the last byte with zeros.
class BitWriter {
 public:
  explicit BitWriter(std::string* out) : out_(out) {}

  // Appends the low `bits` of `value`, 63 at most; its higher bits must be 0.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Put(uint64_t value, int bits) {
    held_ |= value << held_bits_;
    held_bits_ += bits;
    if (held_bits_ < 64) return;
    PutFixed(held_, 8, out_);
    held_bits_ -= 64;
    held_ = held_bits_ == 0 ? 0 : value >> (bits - held_bits_);
  }
  void Finish() { PutFixed(held_, (held_bits_ + 7) / 8, out_); }

 private:
  std::string* out_;
  uint64_t held_ = 0;
  int held_bits_ = 0;  // < 64 between calls
};

class BitReader {
 public:
  explicit BitReader(absl::string_view in) : in_(in) {}

  // Returns at least the next 57 bits, lowest first, with zeros behind the end.
  ABSL_ATTRIBUTE_ALWAYS_INLINE uint64_t Peek() const {
    const size_t byte = position_ / 8;
    if (byte + 8 > in_.size()) [[unlikely]]
      return PeekEnd();
    uint64_t word = 0;
    std::memcpy(&word, in_.data() + byte, 8);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    return word >> (position_ % 8);
  }
  void Skip(int bits) { position_ += static_cast<size_t>(bits); }

  // Bytes that were begun. More than there are: the caller has read behind the end.
  size_t bytes() const { return (position_ + 7) / 8; }
  // Whether the unread bits of the last byte are zero.
  bool PaddedWithZeros() const {
    return position_ % 8 == 0 || (static_cast<uint8_t>(in_[position_ / 8]) >> (position_ % 8)) == 0;
  }

 private:
  uint64_t PeekEnd() const {
    uint64_t word = 0;
    for (size_t i = position_ / 8; i < in_.size(); ++i) {
      word |= static_cast<uint64_t>(static_cast<uint8_t>(in_[i])) << (8 * (i - position_ / 8));
    }
    return word >> (position_ % 8);
  }

  absl::string_view in_;
  size_t position_ = 0;  // in bits
};

}  // namespace foreshock::store
