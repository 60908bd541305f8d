#include "daemon/base/archive.h"

#include <bit>

namespace foreshock::base {
namespace {

constexpr int kVarintBits = 7;
constexpr uint8_t kMore = 0x80;

}  // namespace

void Archive::Varint(uint64_t* value) {
  if (!reading_) {
    uint64_t rest = *value;
    for (; rest >= kMore; rest >>= kVarintBits) {
      out_.push_back(static_cast<char>((rest & (kMore - 1)) | kMore));
    }
    out_.push_back(static_cast<char>(rest));
    return;
  }
  *value = 0;
  for (int shift = 0; shift < 64 && ok_ && !in_.empty(); shift += kVarintBits) {
    const uint8_t byte = static_cast<uint8_t>(in_.front());
    in_.remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & (kMore - 1)) << shift;
    if (byte < kMore) return;
  }
  ok_ = false;
  *value = 0;
}

void Archive::Fixed64(uint64_t* value) {
  constexpr size_t kBytes = sizeof(uint64_t);
  if (!reading_) {
    for (size_t i = 0; i < kBytes; ++i) out_.push_back(static_cast<char>(*value >> (8 * i)));
    return;
  }
  *value = 0;
  ok_ = ok_ && in_.size() >= kBytes;
  if (!ok_) return;
  for (size_t i = 0; i < kBytes; ++i) {
    *value |= static_cast<uint64_t>(static_cast<uint8_t>(in_[i])) << (8 * i);
  }
  in_.remove_prefix(kBytes);
}

void Archive::Count(size_t* count) {
  uint64_t wide = *count;
  Varint(&wide);
  if (reading_ && wide > in_.size()) {
    ok_ = false;
    wide = 0;
  }
  *count = static_cast<size_t>(wide);
}

void Archive::Field(bool* value) {
  uint64_t wide = *value ? 1 : 0;
  Varint(&wide);
  *value = wide != 0;
}

void Archive::Field(double* value) {
  uint64_t bits = std::bit_cast<uint64_t>(*value);
  Fixed64(&bits);
  *value = std::bit_cast<double>(bits);
}

void Archive::Field(std::string* value) {
  size_t count = value->size();
  Count(&count);
  if (!reading_) {
    out_ += *value;
    return;
  }
  *value = std::string(in_.substr(0, count));
  in_.remove_prefix(count);
}

void Archive::Field(std::vector<bool>* value) {
  size_t count = value->size();
  Count(&count);
  value->resize(count);
  for (size_t i = 0; i < count; ++i) {
    bool element = (*value)[i];
    Field(&element);
    (*value)[i] = element;
  }
}

}  // namespace foreshock::base
