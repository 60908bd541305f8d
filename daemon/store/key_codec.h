// Keys of the store, as bytes that sort as their fields do. Layout with worked examples:
// docs/formats/store.md.
//
//   std::string key = HeadKey({.run = 1, .attempt = 1, .seq = 12});
//   HeadId id;
//   if (!DecodeHeadKey(key, &id)) return CorruptRow("heads", key, "key", value);
//
// Integers are big-endian, signed ones with the sign bit flipped. Strings have 00 escaped as 00 FF
// and end with 00 01, so that a prefix sorts first. Decoders take exactly one whole key and return
// false for anything else. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/model/series.h"
#include "daemon/store/window.h"

namespace foreshock::store {

// Kind of a row in the column family `default`, the byte after the run id. It is stored: never
// change it.
enum class RowKind : char {
  kFormat = 'F',        // run 0
  kRun = 'R',           // run 0, name
  kSilences = 'Q',      // run 0
  kAttempt = 'A',       // attempt
  kRank = 'K',          // attempt, rank, client instance
  kAlert = 'L',         // alert id
  kEvent = 'E',         // step, attempt, kind, name, detail
  kCoactivation = 'C',  // attempt, layer
  kJudging = 'J',       // nothing more: a run has at most one
  kSeries = 'S',        // indicator, layer, unit, unit id, unit name
  kRetention = 'D',     // attempt
};

// Rows of the store itself; runs count from 1.
inline constexpr uint32_t kStoreRun = 0;

// A closed step that is not in chunks yet.
struct HeadId {
  uint32_t run = 0;
  uint32_t attempt = 0;
  uint64_t seq = 0;  // rises with every head that is written
  friend bool operator==(const HeadId&, const HeadId&) = default;
};

struct ChunkId {
  uint32_t run = 0;
  uint32_t series = 0;
  uint32_t attempt = 0;
  Window window{};
  friend bool operator==(const ChunkId&, const ChunkId&) = default;
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
std::string RunKey(absl::string_view name);
std::string SilencesKey();
std::string AttemptKey(uint32_t run, uint32_t attempt);
std::string RankKey(uint32_t run, uint32_t attempt, uint32_t rank,
                    absl::string_view client_instance);
std::string AlertKey(uint32_t run, absl::string_view alert_id);
std::string EventKey(uint32_t run, int64_t step, uint32_t attempt, uint32_t kind,
                     absl::string_view name, absl::string_view detail);
std::string CoactivationKey(uint32_t run, uint32_t attempt, uint32_t layer);
std::string JudgingKey(uint32_t run);
std::string RetentionKey(uint32_t run, uint32_t attempt);
std::string SeriesRowKey(uint32_t run, const model::SeriesKey& series);
// The other column families.
std::string ReportKey(const ReportId& id);
std::string HeadKey(const HeadId& id);
// Sorts by the last step of the window, so that one forward seek finds the chunk of a step.
std::string ChunkKey(const ChunkId& id);
// Sorts before every chunk of (run, series, attempt) that ends at `last` or later, and after those
// that end earlier.
std::string ChunkBoundary(uint32_t run, uint32_t series, uint32_t attempt, int64_t last);

// Reads the run of any key in any family: it must have at least one byte after the run.
bool DecodeRunOfKey(absl::string_view key, uint32_t* run);
// Reads the attempt of a row of `default` whose key has one after the kind.
bool DecodeAttemptOfKey(absl::string_view key, uint32_t* attempt);
bool DecodeRunKey(absl::string_view key, std::string* name);
bool DecodeSeriesRowKey(absl::string_view key, uint32_t* run, model::SeriesKey* series);
bool DecodeReportKey(absl::string_view key, ReportId* id);
bool DecodeHeadKey(absl::string_view key, HeadId* id);
bool DecodeChunkKey(absl::string_view key, ChunkId* id);

// Prefixes to scan by.
std::string RunPrefix(uint32_t run);                 // every family
std::string KindPrefix(uint32_t run, RowKind kind);  // `default`
std::string KindPrefix(uint32_t run, RowKind kind, uint32_t attempt);
// Series whose indicator starts with `indicator_prefix`.
std::string SeriesPrefix(uint32_t run, absl::string_view indicator_prefix);
std::string OpenPrefix(uint32_t run, uint32_t attempt);  // `open`
std::string OpenPrefix(uint32_t run, uint32_t attempt, int64_t step);
std::string HeadPrefix(uint32_t run, uint32_t attempt);                    // `heads`
std::string ChunkPrefix(uint32_t run, uint32_t series, uint32_t attempt);  // `chunks`

// Returns the first key after all keys that start with `prefix`; empty: there is none.
std::string PrefixEnd(std::string prefix);

}  // namespace foreshock::store
