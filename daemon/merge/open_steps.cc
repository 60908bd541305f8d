#include "daemon/merge/open_steps.h"

#include <algorithm>
#include <utility>

namespace foreshock::merge {

OpenSteps::OpenSteps(Options options, uint32_t world_size)
    : options_(options), world_size_(world_size), gate_(options.gate), ranks_(world_size) {}

OpenSteps::Outcome OpenSteps::Classify(int64_t step) const {
  if (!last_closed_.has_value() || step > *last_closed_) return Outcome::kOpen;
  if (settled_through_.has_value() && step <= *settled_through_) return Outcome::kTooLate;
  return step > *last_closed_ - options_.kept_steps ? Outcome::kLate : Outcome::kTooLate;
}

OpenSteps::Outcome OpenSteps::Add(const model::ShardReport& report, absl::Time now, bool room) {
  const uint32_t rank = report.rank();
  ranks_.Hear(rank, now);
  if (!gate_.Admit(rank, report.step(), ranks_.live())) return Outcome::kTooFar;
  ranks_.Finished(rank, report.last_of_step() ? report.step() : report.step() - 1);

  const Outcome outcome = Classify(report.step());
  if (outcome == Outcome::kTooLate) return outcome;
  const auto held = open_bytes_.find(rank);
  if (held != open_bytes_.end() && held->second >= options_.rank_bytes_max) room = false;
  if (!room && !steps_.contains(report.step())) return Outcome::kNoRoom;
  Step& step = steps_[report.step()];
  step.closed = outcome == Outcome::kLate;
  if (room) Merge(report, &step);
  if (step.closed) {
    if (room) changed_.insert(report.step());
  } else {
    open_.insert(report.step());
    if (report.last_of_step() && !step.first_done.has_value()) step.first_done = now;
  }
  return room ? outcome : Outcome::kNoRoom;
}

void OpenSteps::Merge(const model::ShardReport& report, Step* step) {
  const size_t before = step->merger.bytes();
  step->merger.Add(report);
  const size_t added = step->merger.bytes() - before;
  bytes_ += added;
  if (step->closed || added == 0) return;
  step->bytes_by_rank[report.rank()] += added;
  open_bytes_[report.rank()] += added;
}

void OpenSteps::RankGone(uint32_t rank) {
  ranks_.Gone(rank);
  gate_.Forget(rank);
}

void OpenSteps::Release(Step* step) {
  for (const auto& [rank, bytes] : std::exchange(step->bytes_by_rank, {})) {
    const auto held = open_bytes_.find(rank);
    held->second -= bytes;
    if (held->second == 0) open_bytes_.erase(held);
  }
}

SettledStep OpenSteps::Close(int64_t number, bool partial) {
  Step& step = steps_.at(number);
  step.closed = true;
  step.row.partial = partial;
  Release(&step);
  open_.erase(number);
  last_closed_ = std::max(last_closed_.value_or(number), number);
  if (gate_.Closed(number)) DiscardBeyondReach();
  return Change(number);
}

void OpenSteps::DiscardBeyondReach() {
  while (!open_.empty() && *open_.rbegin() > gate_.reach()) {
    const auto step = steps_.find(*open_.rbegin());
    Release(&step->second);
    bytes_ -= step->second.merger.bytes();
    open_.erase(step->first);
    steps_.erase(step);
  }
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

// Whether an open step for which somebody is still waited closes without them.
bool OpenSteps::IsDue(int64_t number, absl::Time now) {
  if (open_.size() > options_.open_steps_max || bytes_ > options_.bytes_max) return true;
  std::optional<absl::Time>& first_done = steps_.at(number).first_done;
  if (!first_done.has_value() || now - *first_done < options_.lateness) return false;
  if (!ranks_.MostAreOnTheWay(number, now - options_.lateness)) return true;
  first_done = now;  // and wait once more
  return false;
}

std::vector<SettledStep> OpenSteps::CloseDue(absl::Time now, size_t max) {
  Forget();
  std::vector<SettledStep> settled;
  while (!open_.empty() && settled.size() < max) {
    const int64_t number = *open_.begin();
    const bool complete = ranks_.AllLiveHaveFinished(number);
    if (!complete) {
      if (!IsDue(number, now)) break;
      ranks_.GiveUpOn(number);
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
    step.row.partial = step.row.partial && ranks_.AnybodyIsBehind(number);
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
    settled.push_back(Close(number, /*partial=*/!ranks_.AllLiveHaveFinished(number)));
  }
  return settled;
}

void OpenSteps::RestoreClosed(int64_t last_closed, std::optional<int64_t> settled_through) {
  last_closed_ = last_closed;
  settled_through_ = settled_through;
  gate_.Restore(last_closed, last_closed, 1);
}

void OpenSteps::RestorePace(int64_t first_closed, int64_t closed) {
  gate_.Restore(first_closed, last_closed_.value_or(first_closed), closed);
}

void OpenSteps::RestoreReport(const model::ShardReport& report, absl::Time now) {
  if (report.rank() >= world_size_) return;
  // What was taken before the restart moves nothing now.
  if (!gate_.Admit(report.rank(), report.step(), SIZE_MAX)) return;
  const bool closed = last_closed_.has_value() && report.step() <= *last_closed_;
  Step& step = steps_[report.step()];
  step.closed = closed;
  Merge(report, &step);
  if (closed) return;
  open_.insert(report.step());
  if (report.last_of_step() && !step.first_done.has_value()) step.first_done = now;
}

}  // namespace foreshock::merge
