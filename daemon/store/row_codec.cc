#include "daemon/store/row_codec.h"

#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/store/bytes.h"

namespace foreshock::store {
namespace {

constexpr absl::string_view kMagic = "foreshock store";

// Bits of a StepRow.
constexpr uint8_t kStepSkipped = 1u << 0;
constexpr uint8_t kStepPartial = 1u << 1;
constexpr uint8_t kStepLate = 1u << 2;

bool FitsF32(double value) {
  // Compares first: converting a value that is out of range is undefined.
  const double size = std::fabs(value);
  return size == 0 ||
         (size >= std::numeric_limits<float>::min() && size <= std::numeric_limits<float>::max());
}

bool FitsI64(double value) {
  // No integer becomes -0.0; 2^63 is the first double beyond the range.
  return value >= -0x1p63 && value < 0x1p63 && std::trunc(value) == value &&
         !(value == 0 && std::signbit(value));
}

}  // namespace

std::string EncodeFormat(uint32_t format) {
  std::string row(kMagic);
  PutFixed(format, 4, &row);
  return row;
}

bool DecodeFormat(absl::string_view row, uint32_t* format) {
  if (row.substr(0, kMagic.size()) != kMagic) return false;
  row.remove_prefix(kMagic.size());
  uint64_t wide = 0;
  if (!TakeFixed(4, &row, &wide)) return false;
  *format = static_cast<uint32_t>(wide);
  return row.empty();
}

model::Storage StoredAs(model::Storage storage, double value) {
  const bool fits = storage == model::Storage::kF32   ? FitsF32(value)
                    : storage == model::Storage::kI64 ? FitsI64(value)
                                                      : true;
  return fits ? storage : model::Storage::kF64;
}

double Kept(model::Storage storage, double value) {
  return StoredAs(storage, value) == model::Storage::kF32 ? double{static_cast<float>(value)}
                                                          : value;
}

void AppendPoint(model::Storage storage, double value, uint32_t flags, std::string* out) {
  out->push_back(static_cast<char>(storage));
  PutVarint(flags, out);
  switch (storage) {
    case model::Storage::kF32:
      PutFixed(std::bit_cast<uint32_t>(static_cast<float>(value)), 4, out);
      break;
    case model::Storage::kF64:
      PutFixed(std::bit_cast<uint64_t>(value), 8, out);
      break;
    case model::Storage::kI64:
      PutFixed(static_cast<uint64_t>(static_cast<int64_t>(value)), 8, out);
      break;
  }
}

bool TakePoint(absl::string_view* in, double* value, uint32_t* flags) {
  if (in->empty()) return false;
  const auto storage = static_cast<model::Storage>(in->front());
  in->remove_prefix(1);
  uint64_t bits = 0;
  if (!TakeVarint(kU32Max, in, &bits)) return false;
  *flags = static_cast<uint32_t>(bits);
  switch (storage) {
    case model::Storage::kF32:
      if (!TakeFixed(4, in, &bits)) return false;
      *value = std::bit_cast<float>(static_cast<uint32_t>(bits));
      break;
    case model::Storage::kF64:
      if (!TakeFixed(8, in, &bits)) return false;
      *value = std::bit_cast<double>(bits);
      break;
    case model::Storage::kI64:
      if (!TakeFixed(8, in, &bits)) return false;
      *value = static_cast<double>(static_cast<int64_t>(bits));
      break;
    default:
      return false;
  }
  return std::isfinite(*value);
}

absl::Status CheckPoint(const model::ClosedStep& step, const model::Sample& sample) {
  if (std::isfinite(sample.value)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("store: a point of ", sample.series.indicator,
                                          " at step ", step.row.step, " of run ", step.run, " is ",
                                          sample.value, "; only finite values are points"));
}

uint8_t StepBits(const model::StepRow& step) {
  return (step.skipped ? kStepSkipped : 0) | (step.partial ? kStepPartial : 0) |
         (step.late ? kStepLate : 0);
}

bool SetStepBits(uint64_t bits, model::StepRow* step) {
  step->skipped = (bits & kStepSkipped) != 0;
  step->partial = (bits & kStepPartial) != 0;
  step->late = (bits & kStepLate) != 0;
  return bits == StepBits(*step);
}

void AppendStep(const model::StepRow& step, std::string* out) {
  PutFixed(static_cast<uint64_t>(step.time_unix_ns), 8, out);
  PutVarint(step.tokens, out);
  PutVarint(step.ranks, out);
  out->push_back(static_cast<char>(StepBits(step)));
}

bool TakeStep(absl::string_view* in, model::StepRow* step) {
  uint64_t time = 0;
  uint64_t ranks = 0;
  uint64_t bits = 0;
  if (!(TakeFixed(8, in, &time) && TakeVarint(kU64Max, in, &step->tokens) &&
        TakeVarint(kU32Max, in, &ranks) && TakeFixed(1, in, &bits) && SetStepBits(bits, step))) {
    return false;
  }
  step->time_unix_ns = static_cast<int64_t>(time);
  step->ranks = static_cast<uint32_t>(ranks);
  return true;
}

std::string EncodeRun(uint32_t run, const model::RunRow& row) {
  std::string bytes;
  PutFixed(run, 4, &bytes);
  row.AppendToString(&bytes);
  return bytes;
}

bool DecodeRun(absl::string_view row, uint32_t* run, model::RunRow* message) {
  uint64_t wide = 0;
  if (!TakeFixed(4, &row, &wide) || wide == 0) return false;
  *run = static_cast<uint32_t>(wide);
  return message->ParseFromArray(row.data(), static_cast<int>(row.size()));
}

std::string EncodeRetention(const RetentionRow& row) {
  std::string bytes;
  for (const int64_t number :
       {row.raw_from, row.downsampled_before, row.dropped_before, row.newest_unix_ns}) {
    PutFixed(static_cast<uint64_t>(number), 8, &bytes);
  }
  return bytes;
}

bool DecodeRetention(absl::string_view bytes, RetentionRow* row) {
  for (int64_t* number :
       {&row->raw_from, &row->downsampled_before, &row->dropped_before, &row->newest_unix_ns}) {
    uint64_t bits = 0;
    if (!TakeFixed(8, &bytes, &bits)) return false;
    *number = static_cast<int64_t>(bits);
  }
  return bytes.empty();
}

std::string EncodeSeriesId(uint32_t series) {
  std::string row;
  PutFixed(series, 4, &row);
  return row;
}

bool DecodeSeriesId(absl::string_view row, uint32_t* series) {
  uint64_t wide = 0;
  if (!TakeFixed(4, &row, &wide)) return false;
  *series = static_cast<uint32_t>(wide);
  return row.empty();
}

}  // namespace foreshock::store
