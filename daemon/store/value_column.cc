#include "daemon/store/value_column.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/store/bytes.h"
#include "daemon/store/int_column.h"
#include "daemon/store/row_codec.h"

namespace foreshock::store {
namespace {

// The low three bits of the first byte. In the forms of float bits the upper five bits say how many
// low bits are zero in all values; these are left out.
enum class Form : uint8_t {
  kF32Plus = 0,   // magnitudes of positive values
  kF32Minus = 1,  // magnitudes of negative values
  kF32Mixed = 2,  // magnitude * 2, + 1 if negative
  kF64Plus = 3,
  kF64Minus = 4,
  kF64Mixed = 5,
  kInteger = 6,
  kFraction = 7,  // denominator, then numerators: float32 is the quotient, rounded
};
constexpr int kFormBits = 3;
constexpr uint64_t kDenominatorMax = uint64_t{1} << 24;

template <typename Float>
struct Bits;
template <>
struct Bits<float> {
  using Word = uint32_t;
  static constexpr Word kInfinity = 0x7f800000u;
  static constexpr int kDroppedMax = 23;
  static constexpr Form kPlus = Form::kF32Plus;
};
template <>
struct Bits<double> {
  using Word = uint64_t;
  static constexpr Word kInfinity = 0x7ff0000000000000u;
  static constexpr int kDroppedMax = 31;  // five bits
  static constexpr Form kPlus = Form::kF64Plus;
};

template <typename Float>
void PutBits(absl::Span<const double> values, std::string* out) {
  using Word = typename Bits<Float>::Word;
  constexpr Word kSign = Word{1} << (8 * sizeof(Word) - 1);
  Word any = 0;
  Word all = ~Word{0};
  for (const double value : values) {
    const Word bits = std::bit_cast<Word>(static_cast<Float>(value));
    any |= bits;
    all &= bits;
  }
  const bool mixed = ((any ^ all) & kSign) != 0;
  const int dropped = std::min(std::countr_zero(any & ~kSign), Bits<Float>::kDroppedMax);
  const int form = static_cast<int>(Bits<Float>::kPlus) + (mixed ? 2 : (any & kSign) != 0 ? 1 : 0);
  out->push_back(static_cast<char>(form | (dropped << kFormBits)));
  std::vector<int64_t> column;
  column.reserve(values.size());
  for (const double value : values) {
    const Word bits = std::bit_cast<Word>(static_cast<Float>(value));
    const auto magnitude = static_cast<uint64_t>((bits & ~kSign) >> dropped);
    column.push_back(
        static_cast<int64_t>(mixed ? magnitude * 2 + ((bits & kSign) != 0 ? 1 : 0) : magnitude));
  }
  PutColumn(column, out);
}

template <typename Float>
bool FromBits(Form form, int dropped, absl::Span<const int64_t> column, absl::Span<double> values) {
  using Word = typename Bits<Float>::Word;
  const int kind = static_cast<int>(form) - static_cast<int>(Bits<Float>::kPlus);
  const int sign_bits = kind == 2 ? 1 : 0;
  const uint64_t sign_always = kind == 1 ? 1 : 0;
  const uint64_t limit = uint64_t{Bits<Float>::kInfinity} >> dropped;
  bool finite = dropped <= Bits<Float>::kDroppedMax;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto word = static_cast<uint64_t>(column[i]);
    const uint64_t magnitude = word >> sign_bits;
    const uint64_t sign = (word & static_cast<uint64_t>(sign_bits)) | sign_always;
    finite &= magnitude < limit;
    values[i] = std::bit_cast<Float>(
        static_cast<Word>((magnitude << dropped) | (sign << (8 * sizeof(Word) - 1))));
  }
  return finite;
}

// Finds the largest length of which a >= b are both multiples, each known to +-error; 0: none is
// larger than the error.
double CommonMeasure(double a, double b, double error) {
  while (true) {
    const double times = std::round(a / b);
    const double rest = std::fabs(a - times * b);
    error *= times + 1;
    if (rest <= error) return a / times;  // the longer one is more exact
    if (rest < 8 * error) return 0;
    a = std::exchange(b, rest);
  }
}

// Guesses from a sample the smallest common denominator of float32 `values`; 0: none.
uint64_t GuessDenominator(absl::Span<const double> values) {
  std::array<double, 32> sample{};
  const size_t count = std::min(values.size(), sample.size());
  for (size_t i = 0; i < count; ++i) sample[i] = values[i * values.size() / count];
  const auto end = sample.begin() + static_cast<ptrdiff_t>(count);
  std::sort(sample.begin(), end);
  const double error = std::max(std::fabs(sample[0]), std::fabs(end[-1])) * 0x1p-23;
  // If there is a common measure, gaps between neighbours are small multiples of it.
  std::array<double, 32> gaps{};
  std::adjacent_difference(sample.begin(), end, gaps.begin());
  const auto gaps_end =
      std::remove_if(gaps.begin() + 1, gaps.begin() + static_cast<ptrdiff_t>(count),
                     [&](double gap) { return gap <= error; });
  std::sort(gaps.begin() + 1, gaps_end);
  if (gaps_end == gaps.begin() + 1) return 0;
  double measure = gaps[1];
  for (auto gap = gaps.begin() + 2; gap < gaps_end && measure > 0; ++gap) {
    measure = CommonMeasure(*gap, measure, error);
  }
  // Longer distances are more exact, and the values themselves most.
  for (size_t i = 1; i < count && measure > 0; ++i) {
    const double distance = sample[i] - sample[0];
    if (distance > error) measure = CommonMeasure(distance, measure, error);
  }
  const double largest = std::max(std::fabs(sample[0]), std::fabs(end[-1]));
  if (measure > 0) measure = CommonMeasure(largest, std::min(measure, largest), error);
  if (measure == 0) return 0;
  const double denominator = std::max(std::round(1 / measure), 1.0);
  return denominator <= double{kDenominatorMax} ? static_cast<uint64_t>(denominator) : 0;
}

double Quotient(int64_t numerator, double denominator) {
  return static_cast<float>(static_cast<double>(numerator) / denominator);
}

// Writes nothing and returns false if the values are not float32 fractions with one denominator.
bool PutFractions(absl::Span<const double> values, std::string* out) {
  const uint64_t denominator = GuessDenominator(values);
  if (denominator == 0) return false;
  std::vector<int64_t> column;
  column.reserve(values.size());
  for (const double value : values) {
    const double scaled = value * static_cast<double>(denominator);
    if (std::fabs(scaled) > 0x1p53) return false;
    const auto numerator = static_cast<int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
    const double back = Quotient(numerator, static_cast<double>(denominator));
    if (std::bit_cast<uint64_t>(back) != std::bit_cast<uint64_t>(value)) return false;
    column.push_back(numerator);
  }
  out->push_back(static_cast<char>(Form::kFraction));
  PutVarint(denominator, out);
  PutColumn(column, out);
  return true;
}

}  // namespace

void PutValues(model::Storage storage, absl::Span<const double> values, std::string* out) {
  for (const double value : values) {
    if (StoredAs(storage, value) != storage) storage = model::Storage::kF64;
  }
  switch (storage) {
    case model::Storage::kF32:
      if (!PutFractions(values, out)) PutBits<float>(values, out);
      break;
    case model::Storage::kF64:
      PutBits<double>(values, out);
      break;
    case model::Storage::kI64: {
      out->push_back(static_cast<char>(Form::kInteger));
      std::vector<int64_t> column;
      column.reserve(values.size());
      for (const double value : values) column.push_back(static_cast<int64_t>(value));
      PutColumn(column, out);
      break;
    }
  }
}

bool TakeValues(absl::string_view* in, absl::Span<double> values) {
  uint64_t head = 0;
  if (!TakeFixed(1, in, &head)) return false;
  const auto form = static_cast<Form>(head & ((1u << kFormBits) - 1));
  const auto dropped = static_cast<int>(head >> kFormBits);
  uint64_t denominator = 0;
  if (form >= Form::kInteger && dropped != 0) return false;
  if (form == Form::kFraction &&
      (!TakeVarint(kDenominatorMax, in, &denominator) || denominator == 0)) {
    return false;
  }
  std::vector<int64_t> column(values.size());
  if (!TakeColumn(in, absl::MakeSpan(column))) return false;
  switch (form) {
    case Form::kF32Plus:
    case Form::kF32Minus:
    case Form::kF32Mixed:
      return FromBits<float>(form, dropped, column, values);
    case Form::kF64Plus:
    case Form::kF64Minus:
    case Form::kF64Mixed:
      return FromBits<double>(form, dropped, column, values);
    case Form::kInteger:
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(column[i]);
      return true;
    case Form::kFraction:
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = Quotient(column[i], static_cast<double>(denominator));
      }
      return true;
  }
  return false;
}

}  // namespace foreshock::store
