// How far the ranks of one attempt have come, which of them a step waits for, and which fell
// silent.
//
//   RankProgress ranks(/*world_size=*/8);
//   ranks.Hear(3, now);
//   ranks.Finished(3, 1200);
//   if (ranks.AllLiveHaveFinished(1200)) Close(1200);
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace foreshock::merge {

// Thread-compatible. Takes memory for ranks that have spoken only: a world size costs nothing by
// being told. O(log ranks) where nothing else is said.
class RankProgress {
 public:
  explicit RankProgress(uint32_t world_size) : world_size_(world_size) {}

  // A report of the rank came: it is silent no more.
  void Hear(uint32_t rank, absl::Time now);
  // It has finished every step up to here.
  void Finished(uint32_t rank, int64_t through);
  // It said goodbye: nothing waits for it any more.
  void Gone(uint32_t rank);
  // It said Hello again: it is waited for as any other.
  void Returns(uint32_t rank);
  // After a restart.
  void Restore(uint32_t rank, int64_t done_through, bool gone);

  // Whether nobody who is waited for is behind the step. O(1).
  bool AllLiveHaveFinished(int64_t step) const;
  // Whether anybody but those who are gone is behind it. O(ranks).
  bool AnybodyIsBehind(int64_t step) const;
  // Whether more ranks are on their way to the step, and were heard since then, than have finished
  // it. O(ranks).
  bool MostAreOnTheWay(int64_t step, absl::Time since) const;
  // Whoever is behind the step is silent from now on: nothing waits for it until it speaks.
  void GiveUpOn(int64_t step);

  // Those that fell silent; sorted. O(world).
  std::vector<uint32_t> silent() const;
  size_t silent_count() const;
  // Those that are farthest behind, silent ones included; empty if none is behind the others.
  // Sorted. O(world).
  std::vector<uint32_t> hindmost() const;
  // Ranks that have spoken and are waited for.
  size_t live() const { return live_.size(); }
  size_t held() const { return ranks_.size(); }  // in memory

 private:
  struct Rank {
    int64_t done_through = -1;
    absl::Time heard = absl::InfinitePast();
    bool silent = false;
    bool gone = false;
  };

  Rank& Held(uint32_t rank);
  void Wait(uint32_t number, const Rank& rank) { live_.emplace(rank.done_through, number); }
  void DoNotWait(uint32_t number, const Rank& rank) { live_.erase({rank.done_through, number}); }
  void SetSilent(bool silent, Rank* rank);
  // visit(rank, state) of every rank of the world, in order.
  template <typename Visit>
  void ForEach(Visit visit) const;

  const uint32_t world_size_;
  std::map<uint32_t, Rank> ranks_;  // that have spoken
  Rank others_;                     // the state of each one that has not
  size_t silent_held_ = 0;          // of ranks_
  // Those of ranks_ that are waited for, by how far they have come: (done_through, rank).
  std::set<std::pair<int64_t, uint32_t>> live_;
};

}  // namespace foreshock::merge
