#include "daemon/store/bytes.h"

namespace foreshock::store {

void PutFixed(uint64_t value, int bytes, std::string* out) {
  char text[8];
  for (int i = 0; i < 8; ++i) text[i] = static_cast<char>(value >> (8 * i));
  out->append(text, static_cast<size_t>(bytes));
}

bool TakeFixed(size_t bytes, absl::string_view* in, uint64_t* value) {
  if (in->size() < bytes) return false;
  *value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    *value |= static_cast<uint64_t>(static_cast<uint8_t>((*in)[i])) << (8 * i);
  }
  in->remove_prefix(bytes);
  return true;
}

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

bool TakeVarint(uint64_t max, absl::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const uint64_t byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    if (shift == 63 && byte > 1) return false;
    *value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return (byte != 0 || shift == 0) && *value <= max;
  }
  return false;
}

}  // namespace foreshock::store
