// Values of the store's own rows (points, steps, runs, series, format). All other rows are messages
// of daemon/model/rows.proto and shards.proto. Layout: docs/formats/store.md.
//
//   std::string row = EncodeSeriesId(7);
//   uint32_t series;
//   if (!DecodeSeriesId(row, &series)) return CorruptRow("default", key, "series row", row);
//
// Decoders take exactly one whole value and return false for anything else. Takers cut one off the
// front. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/model/catalogue.h"
#include "daemon/model/rows.pb.h"
#include "daemon/model/step.h"

namespace foreshock::store {

// The one format that this code reads and writes; docs/formats/migration.md is about the next one.
inline constexpr uint32_t kFormat = 2;

std::string EncodeFormat(uint32_t format);
bool DecodeFormat(absl::string_view row, uint32_t* format);

// Chooses how the finite `value` of an indicator of `storage` is stored: as `storage` if that keeps
// it, f32 within 2^-24 relative, i64 exactly. A value that would overflow, vanish or lose more
// precision (a float's subnormal, a fraction in a counter) is stored as f64. So a finite value
// stays finite, and a nonzero one nonzero.
model::Storage StoredAs(model::Storage storage, double value);
// Returns the value that is read back.
double Kept(model::Storage storage, double value);

// One point: type, flags, value. `storage`: what StoredAs returned for the value.
void AppendPoint(model::Storage storage, double value, uint32_t flags, std::string* out);
bool TakePoint(absl::string_view* in, double* value, uint32_t* flags);

// Internal, naming run, step and series, if a sample of the step is not finite.
absl::Status CheckPoint(const model::ClosedStep& step, const model::Sample& sample);

// skipped, partial and late as the bits of one number. False: other bits are set.
uint8_t StepBits(const model::StepRow& step);
bool SetStepBits(uint64_t bits, model::StepRow* step);

// The attempt and the step are in the key; they are not set here.
void AppendStep(const model::StepRow& step, std::string* out);
bool TakeStep(absl::string_view* in, model::StepRow* step);

std::string EncodeRun(uint32_t run, const model::RunRow& row);
bool DecodeRun(absl::string_view row, uint32_t* run, model::RunRow* message);

// How far retention has got in an attempt. Without a row it has done nothing there.
struct RetentionRow {
  int64_t raw_from = INT64_MIN;            // points before it may be downsampled or gone
  int64_t downsampled_before = INT64_MIN;  // chunks that end before it have been
  int64_t dropped_before = INT64_MIN;      // chunks that end before it are gone
  int64_t newest_unix_ns = 0;              // of its newest step, which may be gone; 0: not known
  friend bool operator==(const RetentionRow&, const RetentionRow&) = default;
};
std::string EncodeRetention(const RetentionRow& row);
bool DecodeRetention(absl::string_view bytes, RetentionRow* row);

std::string EncodeSeriesId(uint32_t series);
bool DecodeSeriesId(absl::string_view row, uint32_t* series);

}  // namespace foreshock::store
