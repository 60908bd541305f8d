#include "daemon/store/chunk_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/string_view.h"
#include "daemon/base/check.h"
#include "daemon/store/bytes.h"
#include "daemon/store/int_column.h"
#include "daemon/store/predictor.h"
#include "daemon/store/row_codec.h"
#include "daemon/store/value_column.h"

namespace foreshock::store {
namespace {

// From this size on a summary costs 5 % of the bytes at most.
constexpr size_t kSummaryPointsMin = 512;

void PutDouble(double value, std::string* out) { PutFixed(std::bit_cast<uint64_t>(value), 8, out); }

bool TakeDouble(absl::string_view* in, double* value) {
  uint64_t bits = 0;
  if (!TakeFixed(8, in, &bits)) return false;
  *value = std::bit_cast<double>(bits);
  return std::isfinite(*value);
}

// Writes kind, count and first step; the steps follow as a column.
void PutHead(ChunkKind kind, size_t count, int64_t window_start, int64_t first_step,
             std::string* out) {
  out->push_back(static_cast<char>(kind));
  PutVarint(count - 1, out);
  PutVarint(static_cast<uint64_t>(WrapSub(first_step, window_start)), out);
}

bool TakeHead(ChunkKind kind, size_t count_max, int64_t window_start, absl::string_view* in,
              size_t* count, int64_t* first_step) {
  if (KindOf(*in) != kind) return false;
  in->remove_prefix(1);
  uint64_t more = 0;
  uint64_t offset = 0;
  if (!TakeVarint(count_max - 1, in, &more) || !TakeVarint(kU64Max, in, &offset)) return false;
  *count = more + 1;
  *first_step = WrapAdd(window_start, static_cast<int64_t>(offset));
  return *first_step >= window_start;
}

// Writes a column of get(row) for each row.
template <typename Row, typename Get>
void PutColumnOf(absl::Span<const Row> rows, Get get, std::string* out) {
  std::vector<int64_t> column;
  column.reserve(rows.size());
  for (const Row& row : rows) column.push_back(get(row));
  PutColumn(column, out);
}

// Reads a column and gives each row its value; `set` returns false for a value that is not valid.
template <typename Row, typename Set>
bool TakeColumnOf(absl::string_view* in, absl::Span<Row> rows, std::vector<int64_t>* scratch,
                  Set set) {
  scratch->resize(rows.size());
  if (!TakeColumn(in, absl::MakeSpan(*scratch))) return false;
  bool good = true;
  for (size_t i = 0; i < rows.size(); ++i) good &= set(&rows[i], (*scratch)[i]);
  return good;
}

template <typename Row>
void PutSteps(absl::Span<const Row> rows, std::string* out) {
  PutColumnOf(
      rows, [rows](const Row& row) { return WrapSub(row.step, rows[0].step); }, out);
}

// The steps rise strictly from `first_step`.
template <typename Row>
bool TakeSteps(absl::string_view* in, int64_t first_step, absl::Span<Row> rows,
               std::vector<int64_t>* scratch) {
  const auto set = [&](Row* row, int64_t offset) {
    row->step = WrapAdd(first_step, offset);
    return row == rows.data() ? offset == 0 : row->step > row[-1].step;
  };
  return TakeColumnOf(in, rows, scratch, set);
}

// Keeps the sum of huge doubles finite.
double Saturated(double sum) {
  constexpr double kMax = std::numeric_limits<double>::max();
  return std::clamp(sum, -kMax, kMax);
}

// A part of a downsampled chunk, in the order of its columns.
struct Part {
  int64_t step = 0;  // the first
  int64_t last_step = 0;
  uint32_t count = 0;
  uint32_t flags = 0;
  double min = 0;
  double max = 0;
  double mean = 0;
  double last = 0;
};

model::Storage MeansOf(model::Storage storage) {
  return storage == model::Storage::kF32 ? model::Storage::kF32 : model::Storage::kF64;
}

bool Fits32(int64_t value) { return value >= 0 && static_cast<uint64_t>(value) <= kU32Max; }

template <typename Row>
bool TakeFlags(absl::string_view* in, absl::Span<Row> rows, std::vector<int64_t>* scratch) {
  return TakeColumnOf(in, rows, scratch, [](Row* row, int64_t flags) {
    row->flags = static_cast<uint32_t>(flags);
    return Fits32(flags);
  });
}

template <typename Row>
void PutValuesOf(model::Storage storage, absl::Span<const Row> rows, double Row::*member,
                 std::string* out) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const Row& row : rows) values.push_back(row.*member);
  PutValues(storage, values, out);
}

template <typename Row>
bool TakeValuesOf(absl::string_view* in, double Row::*member, absl::Span<Row> rows) {
  std::vector<double> values(rows.size());
  if (!TakeValues(in, absl::MakeSpan(values))) return false;
  for (size_t i = 0; i < rows.size(); ++i) rows[i].*member = values[i];
  return true;
}

}  // namespace

ChunkKind KindOf(absl::string_view row) {
  const uint8_t kind = row.empty() ? 0 : static_cast<uint8_t>(row.front());
  return kind <= static_cast<uint8_t>(ChunkKind::kSteps) ? static_cast<ChunkKind>(kind)
                                                         : ChunkKind::kNone;
}

std::string EncodeChunk(model::Storage storage, int64_t window_start,
                        absl::Span<const ChunkPoint> points) {
  FORESHOCK_CHECK(!points.empty() && points.size() <= kChunkPointsMax);
  FORESHOCK_CHECK(points[0].step >= window_start);
  std::vector<ChunkPoint> kept(points.begin(), points.end());
  for (ChunkPoint& point : kept) point.value = Kept(storage, point.value);
  points = kept;
  std::string row;
  PutHead(ChunkKind::kPoints, points.size(), window_start, points[0].step, &row);
  if (points.size() >= kSummaryPointsMin) {
    const ChunkSummary summary = Summarise(points);
    PutVarint(static_cast<uint64_t>(WrapSub(summary.last_step, summary.first_step)), &row);
    PutVarint(summary.flags, &row);
    for (const double value : {summary.min, summary.max, summary.sum, summary.last}) {
      PutDouble(value, &row);
    }
  }
  PutSteps(points, &row);
  PutColumnOf(
      points, [](const ChunkPoint& point) { return int64_t{point.flags}; }, &row);
  PutValuesOf(storage, points, &ChunkPoint::value, &row);
  return row;
}

bool DecodeChunkCount(absl::string_view row, uint32_t* count) {
  if (KindOf(row) == ChunkKind::kNone) return false;
  row.remove_prefix(1);
  uint64_t more = 0;
  if (!TakeVarint(kChunkPointsMax - 1, &row, &more)) return false;
  *count = static_cast<uint32_t>(more + 1);
  return true;
}

bool DecodeChunkSummary(absl::string_view row, int64_t window_start, ChunkSummary* summary) {
  if (KindOf(row) == ChunkKind::kDownsampled) {
    std::vector<ChunkSummary> parts;
    if (!DecodeDownsampled(row, window_start, &parts)) return false;
    *summary = Join(parts);
    return true;
  }
  absl::string_view in = row;
  size_t count = 0;
  if (!TakeHead(ChunkKind::kPoints, kChunkPointsMax, window_start, &in, &count,
                &summary->first_step)) {
    return false;
  }
  if (count < kSummaryPointsMin) {
    std::vector<ChunkPoint> points;
    if (!DecodeChunk(row, window_start, &points)) return false;
    *summary = Summarise(points);
    return true;
  }
  summary->count = static_cast<uint32_t>(count);
  uint64_t length = 0;
  uint64_t flags = 0;
  if (!TakeVarint(kU64Max, &in, &length) || !TakeVarint(kU32Max, &in, &flags)) return false;
  summary->last_step = WrapAdd(summary->first_step, static_cast<int64_t>(length));
  summary->flags = static_cast<uint32_t>(flags);
  return summary->last_step > summary->first_step && TakeDouble(&in, &summary->min) &&
         TakeDouble(&in, &summary->max) && TakeDouble(&in, &summary->sum) &&
         TakeDouble(&in, &summary->last) && summary->min <= summary->max;
}

bool DecodeChunk(absl::string_view row, int64_t window_start, std::vector<ChunkPoint>* points) {
  size_t count = 0;
  int64_t first_step = 0;
  absl::string_view in = row;
  if (!TakeHead(ChunkKind::kPoints, kChunkPointsMax, window_start, &in, &count, &first_step)) {
    return false;
  }
  ChunkSummary summary;
  if (count >= kSummaryPointsMin) {
    if (!DecodeChunkSummary(row, window_start, &summary)) return false;
    uint64_t skipped = 0;
    TakeVarint(kU64Max, &in, &skipped);
    TakeVarint(kU32Max, &in, &skipped);
    in.remove_prefix(4 * sizeof(double));
  }
  const size_t before = points->size();
  points->resize(before + count);
  const absl::Span<ChunkPoint> added = absl::MakeSpan(*points).subspan(before);
  std::vector<int64_t> scratch;
  return TakeSteps(&in, first_step, added, &scratch) && TakeFlags(&in, added, &scratch) &&
         TakeValuesOf(&in, &ChunkPoint::value, added) && in.empty() &&
         (count < kSummaryPointsMin || added.back().step == summary.last_step);
}

ChunkSummary Summarise(absl::Span<const ChunkPoint> points) {
  ChunkSummary summary;
  summary.count = static_cast<uint32_t>(points.size());
  summary.first_step = points.front().step;
  summary.last_step = points.back().step;
  summary.min = points.front().value;
  summary.max = points.front().value;
  summary.last = points.back().value;
  for (const ChunkPoint& point : points) {
    summary.min = std::min(summary.min, point.value);
    summary.max = std::max(summary.max, point.value);
    summary.sum += point.value;
    summary.flags |= point.flags;
  }
  summary.sum = Saturated(summary.sum);
  return summary;
}

ChunkSummary Join(absl::Span<const ChunkSummary> parts) {
  ChunkSummary joined = parts.front();
  for (const ChunkSummary& part : parts.subspan(1)) {
    joined.count += part.count;
    joined.last_step = part.last_step;
    joined.min = std::min(joined.min, part.min);
    joined.max = std::max(joined.max, part.max);
    joined.sum = Saturated(joined.sum + part.sum);
    joined.last = part.last;
    joined.flags |= part.flags;
  }
  return joined;
}

std::vector<ChunkSummary> Downsample(int64_t window_start, int window_exponent,
                                     absl::Span<const ChunkPoint> points) {
  const int part_exponent =
      std::max(window_exponent - std::countr_zero(uint32_t{kChunkPartsMax}), 0);
  const auto part_of = [&](const ChunkPoint& point) {
    return static_cast<uint64_t>(WrapSub(point.step, window_start)) >> part_exponent;
  };
  std::vector<ChunkSummary> parts;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin + 1;
    while (end < points.size() && part_of(points[end]) == part_of(points[begin])) ++end;
    parts.push_back(Summarise(points.subspan(begin, end - begin)));
    begin = end;
  }
  return parts;
}

std::string EncodeDownsampled(model::Storage storage, int64_t window_start,
                              absl::Span<const ChunkSummary> parts) {
  FORESHOCK_CHECK(!parts.empty() && parts.size() <= kChunkPartsMax);
  FORESHOCK_CHECK(parts[0].first_step >= window_start);
  std::vector<Part> rows;
  for (const ChunkSummary& part : parts) {
    const double mean = std::clamp(part.sum / part.count, part.min, part.max);
    rows.push_back({part.first_step, part.last_step, part.count, part.flags,
                    Kept(storage, part.min), Kept(storage, part.max), Kept(MeansOf(storage), mean),
                    Kept(storage, part.last)});
  }
  const absl::Span<const Part> all = rows;
  std::string row;
  PutHead(ChunkKind::kDownsampled, rows.size(), window_start, rows[0].step, &row);
  PutSteps(all, &row);
  PutColumnOf(
      all, [](const Part& part) { return WrapSub(part.last_step, part.step); }, &row);
  PutColumnOf(
      all, [](const Part& part) { return int64_t{part.count}; }, &row);
  PutColumnOf(
      all, [](const Part& part) { return int64_t{part.flags}; }, &row);
  PutValuesOf(storage, all, &Part::min, &row);
  PutValuesOf(storage, all, &Part::max, &row);
  PutValuesOf(MeansOf(storage), all, &Part::mean, &row);
  PutValuesOf(storage, all, &Part::last, &row);
  return row;
}

bool DecodeDownsampled(absl::string_view row, int64_t window_start,
                       std::vector<ChunkSummary>* parts) {
  size_t count = 0;
  int64_t first_step = 0;
  if (!TakeHead(ChunkKind::kDownsampled, kChunkPartsMax, window_start, &row, &count, &first_step)) {
    return false;
  }
  std::vector<Part> rows(count);
  const absl::Span<Part> all = absl::MakeSpan(rows);
  std::vector<int64_t> scratch;
  const auto set_length = [](Part* part, int64_t length) {
    part->last_step = WrapAdd(part->step, length);
    return length >= 0 && part->last_step >= part->step;
  };
  const auto set_count = [](Part* part, int64_t points) {
    part->count = static_cast<uint32_t>(points);
    return points > 0 && Fits32(points);
  };
  if (!(TakeSteps(&row, first_step, all, &scratch) &&
        TakeColumnOf(&row, all, &scratch, set_length) &&
        TakeColumnOf(&row, all, &scratch, set_count) && TakeFlags(&row, all, &scratch) &&
        TakeValuesOf(&row, &Part::min, all) && TakeValuesOf(&row, &Part::max, all) &&
        TakeValuesOf(&row, &Part::mean, all) && TakeValuesOf(&row, &Part::last, all) &&
        row.empty())) {
    return false;
  }
  for (const Part& part : rows) {
    if (part.mean < part.min || part.mean > part.max) return false;
    parts->push_back({part.count, part.step, part.last_step, part.min, part.max,
                      Saturated(part.mean * part.count), part.last, part.flags});
  }
  return true;
}

std::string EncodeStepChunk(int64_t window_start, absl::Span<const model::StepRow> steps) {
  FORESHOCK_CHECK(!steps.empty() && steps.size() <= kChunkPointsMax);
  FORESHOCK_CHECK(steps[0].step >= window_start);
  std::string row;
  PutHead(ChunkKind::kSteps, steps.size(), window_start, steps[0].step, &row);
  PutSteps(steps, &row);
  PutColumnOf(
      steps, [](const model::StepRow& step) { return step.time_unix_ns; }, &row);
  PutColumnOf(
      steps, [](const model::StepRow& step) { return static_cast<int64_t>(step.tokens); }, &row);
  PutColumnOf(
      steps, [](const model::StepRow& step) { return int64_t{step.ranks}; }, &row);
  PutColumnOf(
      steps, [](const model::StepRow& step) { return int64_t{StepBits(step)}; }, &row);
  return row;
}

bool DecodeStepChunk(absl::string_view row, int64_t window_start,
                     std::vector<model::StepRow>* steps) {
  size_t count = 0;
  int64_t first_step = 0;
  if (!TakeHead(ChunkKind::kSteps, kChunkPointsMax, window_start, &row, &count, &first_step)) {
    return false;
  }
  const size_t before = steps->size();
  steps->resize(before + count);
  const absl::Span<model::StepRow> added = absl::MakeSpan(*steps).subspan(before);
  std::vector<int64_t> scratch;
  const auto set_time = [](model::StepRow* step, int64_t time) {
    step->time_unix_ns = time;
    return true;
  };
  const auto set_tokens = [](model::StepRow* step, int64_t tokens) {
    step->tokens = static_cast<uint64_t>(tokens);
    return true;
  };
  const auto set_ranks = [](model::StepRow* step, int64_t ranks) {
    step->ranks = static_cast<uint32_t>(ranks);
    return Fits32(ranks);
  };
  const auto set_bits = [](model::StepRow* step, int64_t bits) {
    return SetStepBits(static_cast<uint64_t>(bits), step);
  };
  return TakeSteps(&row, first_step, added, &scratch) &&
         TakeColumnOf(&row, added, &scratch, set_time) &&
         TakeColumnOf(&row, added, &scratch, set_tokens) &&
         TakeColumnOf(&row, added, &scratch, set_ranks) &&
         TakeColumnOf(&row, added, &scratch, set_bits) && row.empty();
}

}  // namespace foreshock::store
