// What the store lets go of, and when: which steps of which run become coarser, which go.
//
//   while (const auto step = NextRetentionStep(options, facts, now)) { ...do it, look again... }
//
// Old points are downsampled first (at most 16 parts of min, mean, max and last per chunk), the
// parts go later, and what people wrote down or were told (runs, attempts, alerts, events) stays
// longest. A pinned run is never touched. Pure: everything that is decided is decided here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace foreshock {

// 0: no such limit. With none at all nothing is ever downsampled or dropped.
struct RetentionOptions {
  // A point stays raw while either holds that is given: its step is younger than this by the wall
  // clock, it is among so many newest steps of its run.
  absl::Duration raw_for = absl::ZeroDuration();
  int64_t raw_steps = 0;
  // Downsampled points go when their steps are older than this.
  absl::Duration downsampled_for = absl::ZeroDuration();
  // Everything but runs, attempts, ranks, alerts and events of a run that ended so long ago goes.
  absl::Duration runs_for = absl::ZeroDuration();
  // What is left of such a run then goes after so long, counted from its end too.
  absl::Duration alerts_for = absl::ZeroDuration();
  uint64_t run_bytes_max = 0;                   // of one run
  uint64_t bytes_max = 0;                       // of the store
  absl::Duration interval = absl::Minutes(10);  // between two looks

  // Whether anything is ever to be done.
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
  uint64_t points_dropped = 0;  // raw or downsampled before
  uint64_t runs_emptied = 0;
  uint64_t runs_deleted = 0;
  bool over_budget = false;  // and nothing more may go
};

namespace store {

// A run that has not ended keeps so many of its newest steps raw, whatever the budget.
inline constexpr int64_t kLiveRawSteps = 10'000;
// A run without a goodbye counts as ended when it is silent for so long.
inline constexpr absl::Duration kSilentEnd = absl::Hours(7 * 24);
// Steps are let go in multiples of this, the length of a dense chunk.
inline constexpr int64_t kRetentionSteps = 1024;

struct AttemptFacts {
  uint32_t number = 0;
  int64_t first_step = 0;          // closed
  int64_t last_step = 0;           // closed
  int64_t downsampled_before = 0;  // chunks that end before it are done; at least first_step
  int64_t dropped_before = 0;      // and here they are gone; at least first_step
  int64_t raw_age_step = 0;        // the first step younger than raw_for (last_step + 1: none)
  int64_t kept_age_step = 0;       // the first step younger than downsampled_for
};

struct RunFacts {
  std::string name{};
  bool pinned = false;
  bool ended = false;                    // its newest attempt said so
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

// What to do next; nothing: all limits are kept, or nothing more may go. `store_bytes`: of all.
// Doing it changes the facts so that another is next, or none: it ends.
std::optional<RetentionStep> NextRetentionStep(const RetentionOptions& options,
                                               absl::Span<const RunFacts> runs,
                                               uint64_t store_bytes, absl::Time now);

}  // namespace store
}  // namespace foreshock
