#include "daemon/merge/open_steps.h"

#include <algorithm>
#include <utility>

#include "daemon/base/check.h"

namespace foreshock::merge {

OpenSteps::OpenSteps(Options options, uint32_t world_size)
    : options_(options), world_size_(world_size) {}

OpenSteps::Rank& OpenSteps::Held(uint32_t rank) {
  FORESHOCK_CHECK(rank < world_size_);
  const auto [it, fresh] = ranks_.try_emplace(rank, others_);
  if (fresh && others_.silent) ++silent_held_;
  if (fresh && !others_.silent) live_.emplace(others_.done_through, rank);
  return it->second;
}

template <typename Visit>
void OpenSteps::ForEachRank(Visit visit) const {
  auto held = ranks_.begin();
  for (uint32_t rank = 0; rank < world_size_; ++rank) {
    if (held != ranks_.end() && held->first == rank) {
      visit(rank, held->second);
      ++held;
    } else {
      visit(rank, others_);
    }
  }
}

OpenSteps::Outcome OpenSteps::Classify(int64_t step) const {
  if (!last_closed_.has_value() || step > *last_closed_) return Outcome::kOpen;
  if (settled_through_.has_value() && step <= *settled_through_) return Outcome::kTooLate;
  return step > *last_closed_ - options_.kept_steps ? Outcome::kLate : Outcome::kTooLate;
}

OpenSteps::Outcome OpenSteps::Add(const model::ShardReport& report, absl::Time now) {
  const Outcome outcome = Classify(report.step());
  Rank& rank = Held(report.rank());
  if (!rank.gone) live_.erase({rank.done_through, report.rank()});
  rank.done_through =
      std::max(rank.done_through, report.last_of_step() ? report.step() : report.step() - 1);
  SetSilent(false, &rank);
  if (!rank.gone) live_.emplace(rank.done_through, report.rank());

  if (outcome == Outcome::kTooLate) return outcome;
  Step& step = Merge(report);
  if (outcome == Outcome::kLate) {
    step.closed = true;
    changed_.insert(report.step());
    return outcome;
  }
  open_.insert(report.step());
  if (report.last_of_step() && !step.first_done.has_value()) step.first_done = now;
  return outcome;
}

OpenSteps::Step& OpenSteps::Merge(const model::ShardReport& report) {
  Step& step = steps_[report.step()];
  bytes_ -= step.merger.bytes();
  step.merger.Add(report);
  bytes_ += step.merger.bytes();
  return step;
}

void OpenSteps::RankGone(uint32_t rank) {
  Rank& state = Held(rank);
  live_.erase({state.done_through, rank});
  SetSilent(false, &state);  // nobody waits for its word
  state.gone = true;
}

void OpenSteps::RankReturns(uint32_t rank) {
  Rank& state = Held(rank);
  if (!std::exchange(state.gone, false)) return;
  live_.emplace(state.done_through, rank);
}

bool OpenSteps::EveryLiveRankDone(int64_t step) const {
  const bool all_held = ranks_.size() == world_size_;
  return (all_held || others_.silent || others_.done_through >= step) &&
         (live_.empty() || live_.begin()->first >= step);
}

SettledStep OpenSteps::Close(int64_t number, bool partial) {
  Step& step = steps_.at(number);
  step.closed = true;
  step.row.partial = partial;
  open_.erase(number);
  last_closed_ = std::max(last_closed_.value_or(number), number);
  return Change(number);
}

SettledStep OpenSteps::Change(int64_t number) {
  Step& step = steps_.at(number);
  step.row.step = number;
  step.row.time_unix_ns = step.merger.time_unix_ns();
  step.row.tokens = step.merger.tokens();
  step.row.ranks = static_cast<uint32_t>(step.merger.ranks());
  step.row.skipped = step.merger.skipped();
  return {step.row, &step.merger};
}

// Every live rank that has not finished `step` is silent from now on.
void OpenSteps::MarkSilent(int64_t step) {
  others_.silent = others_.silent || others_.done_through < step;
  while (!live_.empty() && live_.begin()->first < step) {
    SetSilent(true, &ranks_.at(live_.begin()->second));
    live_.erase(live_.begin());
  }
}

void OpenSteps::SetSilent(bool silent, Rank* rank) {
  silent_held_ -= rank->silent ? 1 : 0;
  rank->silent = silent;
  silent_held_ += silent ? 1 : 0;
}

bool OpenSteps::OldestIsForgettable() const {
  if (steps_.empty() || !steps_.begin()->second.closed) return false;
  const int64_t oldest = steps_.begin()->first;
  if (changed_.contains(oldest)) return false;
  return retired_ || oldest <= *last_closed_ - options_.kept_steps || bytes_ > options_.bytes_max;
}

void OpenSteps::Forget() {
  while (OldestIsForgettable()) {
    const auto oldest = steps_.begin();
    bytes_ -= oldest->second.merger.bytes();
    settled_through_ = std::max(settled_through_.value_or(oldest->first), oldest->first);
    steps_.erase(oldest);
  }
}

bool OpenSteps::has_work() const {
  return !open_.empty() || !changed_.empty() || OldestIsForgettable();
}

std::vector<SettledStep> OpenSteps::TakeSettled(absl::Time now) {
  std::vector<SettledStep> settled = CloseDue(now);
  for (const SettledStep& step : TakeChanged()) settled.push_back(step);
  return settled;
}

std::vector<SettledStep> OpenSteps::CloseDue(absl::Time now, size_t max) {
  Forget();
  std::vector<SettledStep> settled;
  while (!open_.empty() && settled.size() < max) {
    const int64_t number = *open_.begin();
    const bool complete = EveryLiveRankDone(number);
    if (!complete) {
      const std::optional<absl::Time> first_done = steps_.at(number).first_done;
      const bool waited = first_done.has_value() && now - *first_done >= options_.lateness;
      const bool crowded = open_.size() > options_.open_steps_max || bytes_ > options_.bytes_max;
      if (!waited && !crowded) break;
      MarkSilent(number);
    }
    settled.push_back(Close(number, /*partial=*/!complete));
  }
  return settled;
}

std::vector<SettledStep> OpenSteps::TakeChanged() {
  std::vector<SettledStep> settled;
  for (int64_t number : changed_) {
    // Complete after all, if every rank that still speaks has now finished it.
    Step& step = steps_.at(number);
    const auto behind = [number](const Rank& rank) {
      return !rank.gone && rank.done_through < number;
    };
    const bool missing = (ranks_.size() < world_size_ && behind(others_)) ||
                         std::any_of(ranks_.begin(), ranks_.end(),
                                     [&behind](const auto& entry) { return behind(entry.second); });
    step.row.partial = step.row.partial && missing;
    step.row.late = true;
    settled.push_back(Change(number));
  }
  changed_.clear();
  return settled;
}

std::vector<SettledStep> OpenSteps::Retire() {
  retired_ = true;
  std::vector<SettledStep> settled;
  while (!open_.empty()) {
    const int64_t number = *open_.begin();
    settled.push_back(Close(number, /*partial=*/!EveryLiveRankDone(number)));
  }
  return settled;
}

std::vector<uint32_t> OpenSteps::silent_ranks() const {
  std::vector<uint32_t> silent;
  ForEachRank([&silent](uint32_t rank, const Rank& state) {
    if (state.silent) silent.push_back(rank);
  });
  return silent;
}

size_t OpenSteps::silent_count() const {
  return silent_held_ + (others_.silent ? world_size_ - ranks_.size() : 0);
}

std::vector<uint32_t> OpenSteps::hindmost() const {
  std::vector<uint32_t> ranks;
  std::optional<int64_t> least;
  bool differ = false;
  ForEachRank([&](uint32_t rank, const Rank& state) {
    if (state.gone) return;
    const int64_t done = state.done_through;
    differ = differ || (least.has_value() && done != *least);
    if (!least.has_value() || done < *least) {
      least = done;
      ranks.clear();
    }
    if (done == *least) ranks.push_back(rank);
  });
  return differ ? ranks : std::vector<uint32_t>();
}

size_t OpenSteps::open_steps() const { return open_.size(); }

void OpenSteps::RestoreClosed(int64_t last_closed, std::optional<int64_t> settled_through) {
  last_closed_ = last_closed;
  settled_through_ = settled_through;
}

void OpenSteps::RestoreReport(const model::ShardReport& report, absl::Time now) {
  if (report.rank() >= world_size_) return;
  Step& step = Merge(report);
  if (last_closed_.has_value() && report.step() <= *last_closed_) {
    step.closed = true;
    return;
  }
  open_.insert(report.step());
  if (report.last_of_step() && !step.first_done.has_value()) step.first_done = now;
}

void OpenSteps::RestoreRank(uint32_t rank, int64_t done_through, bool gone) {
  if (rank >= world_size_) return;
  Rank& state = Held(rank);
  live_.erase({state.done_through, rank});
  state = {.done_through = done_through, .silent = false, .gone = gone};
  if (!gone) live_.emplace(done_through, rank);
}

}  // namespace foreshock::merge
