// What the ranks of an attempt said they would send (Hello.plan), and what has come of it.
//
//   Coverage coverage;
//   coverage.BeginAttempt();
//   coverage.Declare(/*rank=*/0, /*world_size=*/8, hello.plan());
//   coverage.Seen(Coverage::FamilyOf("load.entropy"), /*layer=*/3, /*step=*/10);
//   coverage.StepClosed(row);
//   for (const Coverage::Track& track : coverage.tracks()) Show(coverage.Missed(track, 10, false));
//
// Several summaries of one kind come under the same family: QkFactors and QkGram give the same
// indicators. Kinds that leave no indicator (co-activation counts, events) are not judged.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/model/step.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::rules {

// Thread-compatible.
class Coverage {
 public:
  using Family = uint8_t;  // SummaryKind; 0: none

  // One kind in one layer, or (kNoLayer) in any of them.
  struct Track {
    Family family = 0;
    std::string kind;  // "qk_gram", as declared
    int32_t layer = model::kNoLayer;
    int64_t every = 1;
    int64_t phase = 0;
  };

  // The family of an indicator id, of the id of an Undefined, of the name of a Finding. What the
  // daemon derives at every step (train.step_seconds, train.tokens_total) and evaluation are of
  // none.
  static Family FamilyOf(absl::string_view indicator);
  static Family FamilyOfFinding(absl::string_view name);

  // What the parent attempt declared is forgotten.
  void BeginAttempt();
  // Replaces what the rank said before. An empty plan is not judged.
  void Declare(uint32_t rank, uint32_t world_size, absl::Span<const v1::PlanEntry> plan);
  void RankGone(uint32_t rank);  // it said goodbye: nothing is expected of it

  // Data of a family came at this step; kNoLayer: no layer is known.
  void Seen(Family family, int32_t layer, int64_t step) {
    if (family == 0) return;
    any_seen_[family] = step;
    if (layer < 0 || layer >= kLayersMax) return;
    std::vector<int64_t>& seen = seen_[family];
    const size_t index = static_cast<size_t>(layer);
    if (index >= seen.size()) seen.resize(index + 1, -1);
    if (seen[index] < 0) changed_ = true;  // "all layers" are those that were seen
    seen[index] = step;
  }
  // Data that could not be computed, whose layer is not known: all layers of the family are taken
  // to have come, unless there are values of some of them.
  void Undefined(Family family, int64_t step);
  // After everything of the step was seen; what is below holds for the newest such step.
  void StepClosed(const model::StepRow& row);

  // Ranks with a plan were heard of in this attempt.
  bool judged() const { return !ranks_.empty(); }
  const std::vector<Track>& tracks() const { return tracks_; }
  uint64_t version() const { return version_; }  // changes with tracks()

  // Times that the data were due since they last came, up to `step`. With `forgiven` what was due
  // before a restart is not counted: what came then without leaving a value is not known.
  int64_t Missed(const Track& track, int64_t step, bool forgiven) const;
  int64_t LastSeen(const Track& track) const;  // before the attempt's first step: never
  int64_t start() const { return start_; }     // of the attempt: its first step - 1
  // Steps in a row, of those at which ranks had something to send, in which fewer ranks than that
  // took part.
  int64_t ranks_missed() const { return ranks_missed_; }
  uint32_t ranks_expected() const { return ranks_expected_; }  // at the newest such step
  uint32_t ranks_came() const { return ranks_came_; }

  // Steps up to this one were replayed after a restart.
  void Forgive(int64_t step) { forgiven_ = step; }

  // All but what a restart says again: the plans, and up to where it forgives.
  template <typename A>
  void serialize(A& archive) {
    archive(seen_, any_seen_, all_seen_, started_, start_, ranks_missed_, ranks_expected_,
            ranks_came_);
    if (A::is_loading::value) changed_ = true;
  }

 private:
  struct Rank {
    std::vector<v1::PlanEntry> plan;
    bool gone = false;
  };

  void Rebuild();
  uint32_t RanksDue(int64_t step) const;

  static constexpr size_t kFamilies = 16;
  static constexpr int32_t kLayersMax = 4096;  // layers further up are not judged
  std::map<uint32_t, Rank> ranks_;             // that said hello
  uint32_t world_size_ = 0;
  std::vector<Track> tracks_;
  uint64_t version_ = 0;
  // Ranks by what they have in common: (every, phase) of all their entries -> how many.
  std::map<std::vector<std::pair<int64_t, int64_t>>, uint32_t> cadences_;
  std::array<std::vector<int64_t>, kFamilies> seen_;  // newest step by layer; -1: never
  std::array<int64_t, kFamilies> any_seen_{};
  std::array<int64_t, kFamilies> all_seen_{};  // by Undefined
  bool changed_ = false;                       // since the last Rebuild
  bool started_ = false;
  int64_t start_ = -1;
  int64_t forgiven_ = -1;
  int64_t ranks_missed_ = 0;
  uint32_t ranks_expected_ = 0;
  uint32_t ranks_came_ = 0;
};

}  // namespace foreshock::rules
