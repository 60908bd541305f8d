#include "daemon/store/int_column.h"

#include <algorithm>
#include <bit>

#include "absl/base/attributes.h"
#include "absl/strings/string_view.h"
#include "daemon/store/bit_stream.h"
#include "daemon/store/bytes.h"
#include "daemon/store/predictor.h"

namespace foreshock::store {
namespace {

// The first byte of a column: a form, or kFirstPredictor + the number of a predictor.
constexpr uint64_t kConstant = 0;
constexpr uint64_t kLine = 1;  // the same difference throughout
constexpr uint64_t kSegments = 2;
constexpr uint64_t kFirstPredictor = 3;

// A Rice code's unary part of this length announces 64 plain bits instead.
constexpr int kRiceEscape = 20;
constexpr int kLowBitsMax = 57;
constexpr int kPeekBits = 57;

constexpr uint64_t LowBits(int bits) { return (uint64_t{1} << bits) - 1; }

// Chooses how many low bits of the next residual are stored plainly: the best number for a
// geometric distribution with the mean of about the last 32 residuals. The newest residual is left
// out, so that a decoder need not wait for it.
class RiceState {
 public:
  explicit RiceState(int low_bits)
      : sum_(uint64_t{1} << (low_bits + kWindow)), low_bits_(low_bits) {}

  int low_bits() const { return low_bits_; }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Add(uint64_t residual) {
    // 0.69 of the mean, about ln 2.
    const uint64_t scale = (sum_ - (sum_ >> 2) - (sum_ >> 4)) >> kWindow;
    low_bits_ = std::min(63 - std::countl_zero(2 * scale + 1), kLowBitsMax);
    sum_ += std::min(residual, uint64_t{1} << kLowBitsMax) - (sum_ >> kWindow);
  }

 private:
  static constexpr int kWindow = 5;
  uint64_t sum_;
  int low_bits_;
};

void PutRice(uint64_t residual, int low_bits, BitWriter* bits) {
  const uint64_t quotient = residual >> low_bits;
  if (quotient >= kRiceEscape) [[unlikely]] {
    bits->Put(uint64_t{1} << kRiceEscape, kRiceEscape + 1);
    bits->Put(residual & kU32Max, 32);
    bits->Put(residual >> 32, 32);
    return;
  }
  bits->Put(uint64_t{1} << quotient, static_cast<int>(quotient) + 1);
  bits->Put(residual & LowBits(low_bits), low_bits);
}

// False: the bits are no Rice code.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool TakeRice(int low_bits, BitReader* bits,
                                                  uint64_t* residual) {
  const uint64_t word = bits->Peek();
  const int quotient = std::countr_zero(word | (uint64_t{1} << (kRiceEscape + 1)));
  const int unary = quotient + 1;
  if (quotient < kRiceEscape && unary + low_bits <= kPeekBits) [[likely]] {
    *residual =
        (static_cast<uint64_t>(quotient) << low_bits) | ((word >> unary) & LowBits(low_bits));
    bits->Skip(unary + low_bits);
    return true;
  }
  bits->Skip(unary);
  if (quotient < kRiceEscape) {
    *residual = (static_cast<uint64_t>(quotient) << low_bits) | (bits->Peek() & LowBits(low_bits));
    bits->Skip(low_bits);
    return true;
  }
  *residual = bits->Peek() & kU32Max;
  bits->Skip(32);
  *residual |= bits->Peek() << 32;
  bits->Skip(32);
  return quotient == kRiceEscape;
}

// Returns the last value up to which the difference that leads to value `i` repeats.
size_t SameDifference(absl::Span<const int64_t> values, size_t i) {
  size_t end = i + 1;
  while (end < values.size() &&
         WrapSub(values[end], values[end - 1]) == WrapSub(values[i], values[i - 1])) {
    ++end;
  }
  return std::min(end, values.size());
}

// Writes the values after the first as pairs (difference, how often). Stops beyond `bytes_max`.
bool PutSegments(absl::Span<const int64_t> values, size_t bytes_max, std::string* out) {
  const size_t begin = out->size();
  for (size_t i = 1; i < values.size();) {
    const size_t end = SameDifference(values, i);
    PutVarint(ZigZag(WrapSub(values[i], values[i - 1])), out);
    PutVarint(end == values.size() ? 0 : end - i, out);
    if (out->size() - begin > bytes_max) return false;
    i = end;
  }
  return true;
}

bool TakeSegments(absl::string_view* in, absl::Span<int64_t> values) {
  for (size_t i = 1; i < values.size();) {
    uint64_t difference = 0;
    uint64_t repeats = 0;
    const size_t left = values.size() - i;
    if (!TakeVarint(kU64Max, in, &difference) || !TakeVarint(left - 1, in, &repeats)) return false;
    if (repeats == 0) repeats = left;
    for (const size_t end = i + repeats; i < end; ++i) {
      values[i] = WrapAdd(values[i - 1], UnZigZag(difference));
    }
  }
  return true;
}

// Estimates how many bits the residuals of a predictor take.
template <typename Predictor>
uint64_t Cost(absl::Span<const int64_t> values, Predictor predictor) {
  uint64_t bits = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const int64_t value = WrapSub(values[i], values[0]);
    bits += static_cast<uint64_t>(std::bit_width(ZigZag(WrapSub(value, predictor.Next()))));
    predictor.Add(value);
  }
  return bits;
}

template <typename Predictor>
void PutResiduals(absl::Span<const int64_t> values, int low_bits, Predictor predictor,
                  std::string* out) {
  RiceState rice(low_bits);
  BitWriter bits(out);
  for (size_t i = 1; i < values.size(); ++i) {
    const int64_t value = WrapSub(values[i], values[0]);
    const uint64_t residual = ZigZag(WrapSub(value, predictor.Next()));
    PutRice(residual, rice.low_bits(), &bits);
    rice.Add(residual);
    predictor.Add(value);
  }
  bits.Finish();
}

template <typename Predictor>
bool TakeResiduals(absl::string_view* in, int low_bits, Predictor predictor,
                   absl::Span<int64_t> values) {
  RiceState rice(low_bits);
  BitReader bits(*in);
  for (size_t i = 1; i < values.size(); ++i) {
    uint64_t residual = 0;
    if (!TakeRice(rice.low_bits(), &bits, &residual)) return false;
    const int64_t value = WrapAdd(predictor.Next(), UnZigZag(residual));
    rice.Add(residual);
    predictor.Add(value);
    values[i] = WrapAdd(value, values[0]);
  }
  if (bits.bytes() > in->size() || !bits.PaddedWithZeros()) return false;
  in->remove_prefix(bits.bytes());
  return true;
}

}  // namespace

void PutColumn(absl::Span<const int64_t> values, std::string* out) {
  const size_t begin = out->size();
  const auto start = [&](uint64_t form) {
    out->resize(begin);
    out->push_back(static_cast<char>(form));
    PutVarint(ZigZag(values[0]), out);
  };
  const size_t same = SameDifference(values, 1);
  if (same == values.size()) {
    const int64_t difference = same > 1 ? WrapSub(values[1], values[0]) : 0;
    start(difference == 0 ? kConstant : kLine);
    if (difference != 0) PutVarint(ZigZag(difference), out);
    return;
  }
  // A predictor takes at least a bit per value.
  start(kSegments);
  if (PutSegments(values, values.size() / 8, out)) return;
  uint64_t best = 0;
  uint64_t best_bits = kU64Max;
  for (uint64_t number = 0; number < kPredictors; ++number) {
    WithPredictor(number, [&](auto predictor) {
      const uint64_t bits = Cost(values, predictor);
      if (bits >= best_bits) return;
      best = number;
      best_bits = bits;
    });
  }
  start(kSegments);
  if (PutSegments(values, (best_bits + values.size()) / 8, out)) return;
  start(kFirstPredictor + best);
  const int low_bits =
      static_cast<int>(std::min<uint64_t>(best_bits / (values.size() - 1), kLowBitsMax));
  out->push_back(static_cast<char>(low_bits));
  WithPredictor(best, [&](auto predictor) { PutResiduals(values, low_bits, predictor, out); });
}

bool TakeColumn(absl::string_view* in, absl::Span<int64_t> values) {
  uint64_t form = 0;
  uint64_t first = 0;
  if (!TakeFixed(1, in, &form) || !TakeVarint(kU64Max, in, &first)) return false;
  values[0] = UnZigZag(first);
  if (form == kSegments) return TakeSegments(in, values);
  if (form < kSegments) {
    uint64_t difference = 0;
    if (form == kLine && !TakeVarint(kU64Max, in, &difference)) return false;
    for (size_t i = 1; i < values.size(); ++i) {
      values[i] = WrapAdd(values[i - 1], UnZigZag(difference));
    }
    return true;
  }
  uint64_t low_bits = 0;
  if (!TakeFixed(1, in, &low_bits) || low_bits > kLowBitsMax) return false;
  bool taken = false;
  WithPredictor(form - kFirstPredictor, [&](auto predictor) {
    taken = TakeResiduals(in, static_cast<int>(low_bits), predictor, values);
  });
  return taken;
}

}  // namespace foreshock::store
