// Keys of the store, as bytes whose order is the order of what they say. Layout with worked
// examples: docs/formats/store.md.
//
//   std::string key = PointKey({.run = 1, .series = 7, .attempt = 1, .step = 1200});
//   PointId id;
//   if (!DecodePointKey(key, &id)) return CorruptRow("points", key, "key");
//
// Integers are big-endian, signed ones with the sign bit flipped. Strings have 00 escaped as 00 FF
// and end with 00 01, so that a prefix sorts first. Decoders take exactly one whole key and answer
// false to anything else. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/model/series.h"

namespace foreshock::store {

// Kind of a row in the column family `default`; the byte after the run id. Stored: never change.
enum class RowKind : char {
  kFormat = 'F',        // run 0
  kRun = 'R',           // run 0, name
  kSilences = 'Q',      // run 0
  kAttempt = 'A',       // attempt
  kRank = 'K',          // attempt, rank, client instance
  kAlert = 'L',         // alert id
  kEvent = 'E',         // step, attempt, kind, name, detail
  kCoactivation = 'C',  // attempt, layer
  kSeries = 'S',        // indicator, layer, unit, unit id, unit name
  kStep = 'T',          // attempt, step
};

// Rows of the store itself; runs count from 1.
inline constexpr uint32_t kStoreRun = 0;

struct PointId {
  uint32_t run = 0;
  uint32_t series = 0;
  uint32_t attempt = 0;
  int64_t step = 0;
  friend bool operator==(const PointId&, const PointId&) = default;
};

struct StepId {
  uint32_t run = 0;
  uint32_t attempt = 0;
  int64_t step = 0;
  friend bool operator==(const StepId&, const StepId&) = default;
};

struct ReportId {
  uint32_t run = 0;
  uint32_t attempt = 0;
  int64_t step = 0;
  uint32_t rank = 0;
  std::string client_instance;
  uint64_t seq = 0;
  friend bool operator==(const ReportId&, const ReportId&) = default;
};

// Column family `default`.
std::string FormatKey();
std::string RunKey(std::string_view name);
std::string SilencesKey();
std::string AttemptKey(uint32_t run, uint32_t attempt);
std::string RankKey(uint32_t run, uint32_t attempt, uint32_t rank,
                    std::string_view client_instance);
std::string AlertKey(uint32_t run, std::string_view alert_id);
std::string EventKey(uint32_t run, int64_t step, uint32_t attempt, uint32_t kind,
                     std::string_view name, std::string_view detail);
std::string CoactivationKey(uint32_t run, uint32_t attempt, uint32_t layer);
std::string SeriesRowKey(uint32_t run, const SeriesKey& series);
std::string StepKey(const StepId& id);
// Column families `open` and `points`.
std::string ReportKey(const ReportId& id);
std::string PointKey(const PointId& id);

bool DecodeRunKey(std::string_view key, std::string* name);
bool DecodeSeriesRowKey(std::string_view key, uint32_t* run, SeriesKey* series);
bool DecodeStepKey(std::string_view key, StepId* id);
bool DecodeReportKey(std::string_view key, ReportId* id);
bool DecodePointKey(std::string_view key, PointId* id);

// Prefixes to scan by.
std::string RunPrefix(uint32_t run);                 // every family
std::string KindPrefix(uint32_t run, RowKind kind);  // `default`
std::string KindPrefix(uint32_t run, RowKind kind, uint32_t attempt);
// Series whose indicator starts with `indicator_prefix`.
std::string SeriesPrefix(uint32_t run, std::string_view indicator_prefix);
std::string OpenPrefix(uint32_t run, uint32_t attempt);  // `open`
std::string OpenPrefix(uint32_t run, uint32_t attempt, int64_t step);

// The first key after every key that starts with `prefix`; empty when there is none.
std::string PrefixEnd(std::string prefix);

}  // namespace foreshock::store
