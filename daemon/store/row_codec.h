// Values of the store's own rows (points, steps, runs, series, format); all other rows are the
// messages of daemon/model/rows.proto and shards.proto. Layout: docs/formats/store.md.
//
//   std::string row = EncodeSeriesId(7);
//   uint32_t series;
//   if (!DecodeSeriesId(row, &series)) return CorruptRow("default", key, "series row", row);
//
// Decoders take exactly one whole value and answer false to anything else; takers cut one off the
// front. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/model/catalogue.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/step.h"

namespace foreshock::store {

// The one format that this code reads and writes; docs/formats/migration.md is about the next one.
inline constexpr uint32_t kFormat = 2;

std::string EncodeFormat(uint32_t format);
bool DecodeFormat(std::string_view row, uint32_t* format);

// What the finite `value` of an indicator of `storage` is stored as: `storage` where that keeps it,
// f32 within 2^-24 relative, i64 exactly. What would overflow, vanish or lose precision beyond that
// (a float's subnormals, a fraction in a counter) is stored as f64, so a finite value stays finite
// and a nonzero one nonzero.
Storage StoredAs(Storage storage, double value);
// The value that comes back.
double Kept(Storage storage, double value);

// One point: type, flags, value. `storage` is one that StoredAs answered for the value.
void AppendPoint(Storage storage, double value, uint32_t flags, std::string* out);
bool TakePoint(std::string_view* in, double* value, uint32_t* flags);

// Internal, naming run, step and series, if a sample of the step is not finite.
absl::Status CheckPoint(const ClosedStep& step, const Sample& sample);

// skipped, partial and late as the bits of one number. False: there are others in it.
uint8_t StepBits(const StepRow& step);
bool SetStepBits(uint64_t bits, StepRow* step);

// The attempt and the step are in the key and stay untouched.
void AppendStep(const StepRow& step, std::string* out);
bool TakeStep(std::string_view* in, StepRow* step);

std::string EncodeRun(uint32_t run, const model::RunRow& row);
bool DecodeRun(std::string_view row, uint32_t* run, model::RunRow* message);

// How far retention has got in an attempt. Without a row nothing was done there.
struct RetentionRow {
  int64_t raw_from = INT64_MIN;            // points before it may be downsampled or gone
  int64_t downsampled_before = INT64_MIN;  // chunks that end before it have been
  int64_t dropped_before = INT64_MIN;      // chunks that end before it are gone
  int64_t newest_unix_ns = 0;              // of its newest step, which may be gone; 0: not known
  friend bool operator==(const RetentionRow&, const RetentionRow&) = default;
};
std::string EncodeRetention(const RetentionRow& row);
bool DecodeRetention(std::string_view bytes, RetentionRow* row);

std::string EncodeSeriesId(uint32_t series);
bool DecodeSeriesId(std::string_view row, uint32_t* series);

}  // namespace foreshock::store
