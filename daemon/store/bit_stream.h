// Bits in a byte string, the lowest of a byte first.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace foreshock::store {

// Appends to a string. Finish() pads the last byte with zeros.
class BitWriter {
 public:
  explicit BitWriter(std::string* out) : out_(out) {}

  // The low `bits` of `value`, at most 57; those above are 0.
  void Put(uint64_t value, int bits) {
    held_ |= value << held_bits_;
    held_bits_ += bits;
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(held_ >> (8 * i));
    const int whole = held_bits_ / 8;
    out_->append(bytes, static_cast<size_t>(whole));
    held_ = whole == 8 ? 0 : held_ >> (8 * whole);
    held_bits_ %= 8;
  }
  void Finish() {
    if (held_bits_ > 0) out_->push_back(static_cast<char>(held_));
    held_ = 0;
    held_bits_ = 0;
  }

 private:
  std::string* out_;
  uint64_t held_ = 0;
  int held_bits_ = 0;  // < 8 between calls
};

class BitReader {
 public:
  explicit BitReader(std::string_view in) : in_(in) {}

  // At least the next 57 bits, lowest first; zeros behind the end.
  uint64_t Peek() const {
    const size_t byte = position_ / 8;
    uint64_t word = 0;
    if (byte + 8 <= in_.size()) [[likely]] {
      std::memcpy(&word, in_.data() + byte, 8);
      if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    } else {
      for (size_t i = byte; i < in_.size(); ++i) {
        word |= static_cast<uint64_t>(static_cast<uint8_t>(in_[i])) << (8 * (i - byte));
      }
    }
    return word >> (position_ % 8);
  }
  void Skip(size_t bits) { position_ += bits; }
  uint64_t Take(int bits) {  // at most 57
    const uint64_t value = Peek() & ((uint64_t{1} << bits) - 1);
    Skip(static_cast<size_t>(bits));
    return value;
  }

  // Bytes begun; more than there are: it was read behind the end.
  size_t bytes() const { return (position_ + 7) / 8; }
  // Whether the bits behind the last one read, to the end of its byte, are zero.
  bool PaddedWithZeros() const {
    return position_ % 8 == 0 || (static_cast<uint8_t>(in_[position_ / 8]) >> (position_ % 8)) == 0;
  }

 private:
  std::string_view in_;
  size_t position_ = 0;  // in bits
};

}  // namespace foreshock::store
