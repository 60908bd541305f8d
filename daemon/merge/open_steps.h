// The open steps of one attempt: who has reported what, when a step closes, and what comes late.
//
//   OpenSteps steps({}, /*world_size=*/8);
//   steps.Add(report, now);
//   for (SettledStep& step : steps.TakeSettled(now)) Store(step);
//
// A step closes, in step order, when every live rank has sent last_of_step for it or is past it. A
// rank for which a step had to wait longer than `lateness` is silent: that step is partial, and no
// later step waits for the rank, or is partial for its sake, until it speaks again (coverage is
// what tells of it). But a few ranks that are ahead do not close a step while most others still
// send what lies before it. A report for a closed step merges again while the step is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "daemon/merge/rank_progress.h"
#include "daemon/merge/step_gate.h"
#include "daemon/merge/step_merger.h"
#include "daemon/model/step.h"

namespace foreshock::merge {

// A step that has just closed, or has changed after it closed (row.late). The merger is valid
// until the next call to the OpenSteps it came from.
struct SettledStep {
  model::StepRow row;  // attempt is the caller's to set
  const StepMerger* merged = nullptr;
};

// Thread-compatible. Reads no clock.
class OpenSteps {
 public:
  struct Options {
    absl::Duration lateness = absl::Seconds(30);  // from the first last_of_step of the step
    size_t open_steps_max = 4096;                 // more: the oldest closes at once
    size_t bytes_max = 64u << 20;                 // of all merged statistics, open and kept
    size_t rank_bytes_max = 32u << 20;            // of what one rank has sent of open steps
    int64_t kept_steps = 32;                      // closed steps that late reports still reach
    StepGate::Options gate{};
  };

  enum class Outcome {
    kOpen,     // counted into an open step
    kLate,     // merged into a closed step that is kept
    kTooLate,  // the step is no longer kept: not taken
    kTooFar,   // the step is implausibly far ahead of the run: not taken
    kNoRoom,   // the rank holds rank_bytes_max, or the caller has no room: not taken
  };

  OpenSteps(Options options, uint32_t world_size);

  // Without `room` the statistics are not taken; that the rank has finished the step counts in any
  // case, so that the step can close.
  Outcome Add(const model::ShardReport& report, absl::Time now, bool room = true);

  // What Add would answer, without adding.
  Outcome Classify(int64_t step) const;

  // The rank said goodbye: nothing waits for it any more.
  void RankGone(uint32_t rank);
  // It said Hello again: steps wait for it as for any other.
  void RankReturns(uint32_t rank) { ranks_.Returns(rank); }

  // Someone who knows says that the run comes to this step, however far it is ahead.
  void ExpectStep(int64_t step) { gate_.Expect(step); }
  const StepGate& gate() const { return gate_; }

  // Closes the steps that are due, at most `max` of them, in step order.
  std::vector<SettledStep> CloseDue(absl::Time now, size_t max = SIZE_MAX);
  // Closed steps that late reports have changed since the last call.
  std::vector<SettledStep> TakeChanged();
  // One after the other.
  std::vector<SettledStep> TakeSettled(absl::Time now);
  // False: the calls above would do nothing, whatever the time.
  bool has_work() const;

  // Closes everything that is open and keeps nothing from now on: a newer attempt has begun.
  std::vector<SettledStep> Retire();

  // Ranks that no step waits for because they fell silent; sorted.
  std::vector<uint32_t> silent_ranks() const { return ranks_.silent(); }
  size_t silent_count() const { return ranks_.silent_count(); }

  // Ranks that are farthest behind, those that fell silent included; empty if none is behind the
  // others. Sorted. O(ranks).
  std::vector<uint32_t> hindmost() const { return ranks_.hindmost(); }

  // Every closed step <= this is no longer kept: its statistics may be forgotten.
  std::optional<int64_t> settled_through() const { return settled_through_; }
  std::optional<int64_t> last_closed() const { return last_closed_; }
  size_t open_steps() const { return open_.size(); }
  size_t bytes() const { return bytes_; }
  // Ranks that take memory: those that have spoken. A world size costs nothing by being told.
  size_t ranks_held() const { return ranks_.held(); }

  // After a restart, before any Add, in this order. Steps <= `last_closed` had closed, and those
  // <= `settled_through` were forgotten.
  void RestoreClosed(int64_t last_closed, std::optional<int64_t> settled_through);
  // The first step that had closed, and at least how many had.
  void RestorePace(int64_t first_closed, int64_t closed);
  // How far the rank had come.
  void RestoreRank(uint32_t rank, int64_t done_through, bool gone) {
    ranks_.Restore(rank, done_through, gone);
  }
  // A stored report: part of an open step, or of a closed one that is kept.
  void RestoreReport(const model::ShardReport& report, absl::Time now);

 private:
  struct Step {
    StepMerger merger;
    absl::flat_hash_map<uint32_t, size_t> bytes_by_rank;  // while it is open
    std::optional<absl::Time> first_done;                 // first last_of_step seen
    bool closed = false;
    bool late = false;  // changed since it closed
    model::StepRow row;
  };
  void Merge(const model::ShardReport& report, Step* step);
  bool IsDue(int64_t number, absl::Time now);
  SettledStep Close(int64_t number, bool partial);
  SettledStep Change(int64_t number);
  // Gives back what its ranks hold of an open step.
  void Release(Step* step);
  void DiscardBeyondReach();
  bool OldestIsForgettable() const;
  void Forget();

  const Options options_;
  const uint32_t world_size_;
  StepGate gate_;
  RankProgress ranks_;
  std::map<int64_t, Step> steps_;  // open and kept
  std::set<int64_t> open_;         // keys of steps_ that are open
  std::set<int64_t> changed_;      // keys of kept steps with late data
  std::optional<int64_t> last_closed_;
  std::optional<int64_t> settled_through_;
  bool retired_ = false;
  size_t bytes_ = 0;
  absl::flat_hash_map<uint32_t, size_t> open_bytes_;  // by rank, of open steps
};

}  // namespace foreshock::merge
