#include "daemon/merge/rank_progress.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/base/check.h"

namespace foreshock::merge {

RankProgress::Rank& RankProgress::Held(uint32_t number) {
  FORESHOCK_CHECK(number < world_size_);
  const auto [it, fresh] = ranks_.try_emplace(number, others_);
  if (fresh && others_.silent) ++silent_held_;
  if (fresh && !others_.silent) Wait(number, it->second);
  return it->second;
}

void RankProgress::SetSilent(bool silent, Rank* rank) {
  silent_held_ -= rank->silent ? 1 : 0;
  rank->silent = silent;
  silent_held_ += silent ? 1 : 0;
}

void RankProgress::Hear(uint32_t number, absl::Time now) {
  Rank& rank = Held(number);
  rank.heard = now;
  if (!rank.silent) return;
  SetSilent(false, &rank);
  Wait(number, rank);
}

void RankProgress::Finished(uint32_t number, int64_t through) {
  Rank& rank = Held(number);
  if (through <= rank.done_through) return;
  const bool waited_for = !rank.gone && !rank.silent;
  if (waited_for) DoNotWait(number, rank);
  rank.done_through = through;
  if (waited_for) Wait(number, rank);
}

void RankProgress::Gone(uint32_t number) {
  Rank& rank = Held(number);
  DoNotWait(number, rank);
  SetSilent(false, &rank);
  rank.gone = true;
}

void RankProgress::Returns(uint32_t number) {
  Rank& rank = Held(number);
  if (std::exchange(rank.gone, false)) Wait(number, rank);
}

void RankProgress::Restore(uint32_t number, int64_t done_through, bool gone) {
  if (number >= world_size_) return;
  Rank& rank = Held(number);
  DoNotWait(number, rank);
  rank.done_through = done_through;
  rank.gone = gone;
  if (!gone) Wait(number, rank);
}

bool RankProgress::AllLiveHaveFinished(int64_t step) const {
  const bool all_held = ranks_.size() == world_size_;
  return (all_held || others_.silent || others_.done_through >= step) &&
         (live_.empty() || live_.begin()->first >= step);
}

bool RankProgress::AnybodyIsBehind(int64_t step) const {
  const auto behind = [step](const Rank& rank) { return !rank.gone && rank.done_through < step; };
  return (ranks_.size() < world_size_ && behind(others_)) ||
         std::any_of(ranks_.begin(), ranks_.end(),
                     [&behind](const auto& entry) { return behind(entry.second); });
}

bool RankProgress::MostAreOnTheWay(int64_t step, absl::Time since) const {
  size_t on_the_way = 0;
  size_t finished = 0;
  for (const auto& [number, rank] : ranks_) {
    if (rank.gone) continue;
    finished += rank.done_through >= step ? 1 : 0;
    on_the_way += rank.done_through < step && rank.heard > since ? 1 : 0;
  }
  return on_the_way > finished;
}

void RankProgress::GiveUpOn(int64_t step) {
  others_.silent = others_.silent || others_.done_through < step;
  while (!live_.empty() && live_.begin()->first < step) {
    SetSilent(true, &ranks_.at(live_.begin()->second));
    live_.erase(live_.begin());
  }
}

template <typename Visit>
void RankProgress::ForEach(Visit visit) const {
  auto held = ranks_.begin();
  for (uint32_t number = 0; number < world_size_; ++number) {
    if (held != ranks_.end() && held->first == number) {
      visit(number, held->second);
      ++held;
    } else {
      visit(number, others_);
    }
  }
}

std::vector<uint32_t> RankProgress::silent() const {
  std::vector<uint32_t> ranks;
  ForEach([&ranks](uint32_t number, const Rank& rank) {
    if (rank.silent) ranks.push_back(number);
  });
  return ranks;
}

size_t RankProgress::silent_count() const {
  return silent_held_ + (others_.silent ? world_size_ - ranks_.size() : 0);
}

std::vector<uint32_t> RankProgress::hindmost() const {
  std::vector<uint32_t> ranks;
  std::optional<int64_t> least;
  bool differ = false;
  ForEach([&](uint32_t number, const Rank& rank) {
    if (rank.gone) return;
    const int64_t done = rank.done_through;
    differ = differ || (least.has_value() && done != *least);
    if (!least.has_value() || done < *least) {
      least = done;
      ranks.clear();
    }
    if (done == *least) ranks.push_back(number);
  });
  return differ ? ranks : std::vector<uint32_t>();
}

}  // namespace foreshock::merge
