// docs/formats/chunk.md read literally, a bit at a time and without the code of daemon/store: what
// the columns of a row say. Throws std::out_of_range where the bytes end too early.
//
//   PageReader page(bytes);
//   EXPECT_EQ(page.Integers(steps.size()), steps);
//   EXPECT_EQ(page.form(), 4);  // predictor 1
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace foreshock::store {

class PageReader {
 public:
  explicit PageReader(absl::string_view bytes) : bytes_(bytes) {}

  // The form of the last column that was read.
  int form() const { return form_; }
  size_t bytes_read() const { return at_; }

  std::vector<int64_t> Integers(size_t count) {
    form_ = Byte();
    std::vector<uint64_t> values = {ZigZagged()};
    if (form_ >= 3) {
      Residuals(form_ - 3, count, &values);
    } else if (form_ == 2) {
      while (values.size() < count) {
        const uint64_t difference = ZigZagged();
        uint64_t repeats = Varint();
        if (repeats == 0) repeats = count - values.size();
        for (; repeats > 0; --repeats) values.push_back(values.back() + difference);
      }
    } else {
      const uint64_t difference = form_ == 1 ? ZigZagged() : 0;
      while (values.size() < count) values.push_back(values.back() + difference);
    }
    return {values.begin(), values.end()};
  }

  // The form of values is that of the column; which form the integers in it had, nobody asks.
  std::vector<double> Values(size_t count) {
    const int head = Byte();
    const int form = head % 8, dropped = head / 8;
    const double denominator = form == 7 ? static_cast<double>(Varint()) : 1;
    std::vector<double> values;
    for (const int64_t integer : Integers(count)) {
      const auto word = static_cast<uint64_t>(integer);
      const uint64_t magnitude = form % 3 == 2 ? word / 2 : word;
      const bool negative = form % 3 == 1 || (form % 3 == 2 && word % 2 == 1);
      if (form == 6) {
        values.push_back(static_cast<double>(integer));
      } else if (form == 7) {
        values.push_back(static_cast<float>(static_cast<double>(integer) / denominator));
      } else if (form >= 3) {
        const auto value = std::bit_cast<double>(magnitude << dropped);
        values.push_back(negative ? -value : value);
      } else {
        const auto value = std::bit_cast<float>(static_cast<uint32_t>(magnitude << dropped));
        values.push_back(negative ? -value : value);
      }
    }
    form_ = form;
    return values;
  }

 private:
  uint8_t Byte() { return static_cast<uint8_t>(bytes_.at(at_++)); }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = Byte();
      value |= static_cast<uint64_t>(byte % 128) << shift;
      if (byte < 128) return value;
    }
  }
  // Integers are kept unsigned, so that they wrap.
  uint64_t ZigZagged() { return UnZigZag(Varint()); }
  static uint64_t UnZigZag(uint64_t u) { return u % 2 == 0 ? u / 2 : ~(u / 2); }

  uint64_t Bits(int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; ++i, ++bit_) {
      const auto byte = static_cast<uint8_t>(bytes_.at(at_ + bit_ / 8));
      value |= static_cast<uint64_t>(byte >> (bit_ % 8) & 1) << i;
    }
    return value;
  }

  uint64_t Rice(int k) {
    int quotient = 0;
    while (Bits(1) == 0) ++quotient;
    if (quotient == 20) return Bits(64);
    return (static_cast<uint64_t>(quotient) << k) + Bits(k);
  }

  static uint64_t ShiftRight(uint64_t value, int s) {
    return static_cast<uint64_t>(static_cast<int64_t>(value) >> s);
  }

  void Residuals(int predictor, size_t count, std::vector<uint64_t>* values) {
    const bool slope = predictor >= 4;
    const int kShifts[] = {0, 1, 2, 4, 0, 3};
    const int s = kShifts[predictor];
    int k = Byte();
    uint64_t sum = uint64_t{1} << (k + 5), scaled = 0, last = 0;
    bit_ = 0;
    while (values->size() < count) {
      const uint64_t residual = Rice(k);
      const uint64_t prediction = ShiftRight(scaled, s) + (slope ? last : 0);
      const uint64_t value = prediction + UnZigZag(residual);
      scaled += slope ? (value - last) - ShiftRight(scaled, s) : value - prediction;
      last = value;
      k = std::min(static_cast<int>(std::bit_width((sum - (sum >> 2) - (sum >> 4)) >> 5)), 57);
      sum = sum + std::min(residual, uint64_t{1} << 57) - (sum >> 5);
      values->push_back(values->front() + value);
    }
    at_ += (bit_ + 7) / 8;
  }

  absl::string_view bytes_;
  size_t at_ = 0;
  size_t bit_ = 0;  // of a bit stream that begins at at_
  int form_ = 0;
};

}  // namespace foreshock::store
