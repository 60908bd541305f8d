// Decides which steps of which run are downsampled or dropped, and when.
//
//   while (const auto step = NextRetentionStep(options, facts, bytes, now)) { Do(*step); ... }
//
// Old points are first downsampled to 16 parts per chunk at most, each with min, mean, max and
// last. The parts are dropped later. Runs, attempts, alerts and events stay longest. A pinned run
// is never touched. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace foreshock::store {

// 0: no such limit. Without any limit nothing is ever downsampled or dropped.
struct RetentionOptions {
  // A point stays raw while its step is younger than raw_for by the wall clock, or is among the
  // raw_steps newest steps of its run. Either limit may be left out.
  absl::Duration raw_for = absl::ZeroDuration();
  int64_t raw_steps = 0;
  // Downsampled points are dropped when their steps are older than this.
  absl::Duration downsampled_for = absl::ZeroDuration();
  // A run that ended so long ago is emptied: its run row, attempts, ranks, alerts and events stay.
  absl::Duration runs_for = absl::ZeroDuration();
  // An emptied run is deleted so long after its end.
  absl::Duration alerts_for = absl::ZeroDuration();
  uint64_t run_bytes_max = 0;                   // of one run
  uint64_t bytes_max = 0;                       // of the store
  absl::Duration interval = absl::Minutes(10);  // between two passes

  // Whether there is any limit.
  bool any() const {
    return raw_for > absl::ZeroDuration() || raw_steps > 0 ||
           downsampled_for > absl::ZeroDuration() || runs_for > absl::ZeroDuration() ||
           run_bytes_max > 0 || bytes_max > 0;
  }
};

// What one pass has done.
struct RetentionResult {
  uint64_t chunks_downsampled = 0;
  uint64_t points_downsampled = 0;
  uint64_t points_dropped = 0;  // raw points, and points of parts
  uint64_t runs_emptied = 0;
  uint64_t runs_deleted = 0;
  bool over_budget = false;  // after the pass, and nothing more may be dropped
};

// A run that has not ended keeps so many newest steps raw, whatever the budget.
inline constexpr int64_t kLiveRawSteps = 10'000;
// A run that did not say goodbye counts as ended when it has been silent for so long.
inline constexpr absl::Duration kSilentEnd = absl::Hours(7 * 24);
// Steps are treated in multiples of this, the length of a dense chunk.
inline constexpr int64_t kRetentionSteps = 1024;

struct AttemptFacts {
  uint32_t number = 0;
  int64_t first_step = 0;          // closed
  int64_t last_step = 0;           // closed
  int64_t downsampled_before = 0;  // chunks that end before it are; at least first_step
  int64_t dropped_before = 0;      // chunks that end before it are; at least first_step
  int64_t raw_age_step = 0;        // the first step younger than raw_for (last_step + 1: none)
  int64_t kept_age_step = 0;       // the first step younger than downsampled_for
};

struct RunFacts {
  std::string name{};
  bool pinned = false;
  bool ended = false;                    // its newest attempt said goodbye
  bool empty = false;                    // no series is left
  absl::Time newest{};                   // its newest step, or when it was created
  uint64_t bytes = 0;                    // on disk, about
  std::vector<AttemptFacts> attempts{};  // with closed steps, oldest first
};

struct RetentionStep {
  enum class Kind { kDownsample, kDropPoints, kEmptyRun, kDeleteRun };
  Kind kind = Kind::kDownsample;
  std::string run{};
  uint32_t attempt = 0;        // of kDownsample and kDropPoints
  int64_t before_step = 0;     // of kDownsample and kDropPoints
  absl::string_view reason{};  // the option
};

// Returns what to do next; nullopt: all limits are kept, or nothing more may be dropped.
// `store_bytes`: of all runs. Doing it changes the facts, so a loop over it ends.
std::optional<RetentionStep> NextRetentionStep(const RetentionOptions& options,
                                               absl::Span<const RunFacts> runs,
                                               uint64_t store_bytes, absl::Time now);

}  // namespace foreshock::store
