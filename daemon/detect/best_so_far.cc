#include "daemon/detect/best_so_far.h"

#include <algorithm>
#include <cmath>

namespace foreshock::detect {
namespace {

constexpr std::array<size_t, 3> kRows = {16, 64, 256};
constexpr int kLooksPerMean = 4;
constexpr int kLooksToTell = 3;
constexpr std::array<size_t, 4> kBlocks = {1, 4, 16, 64};
constexpr size_t kBestsMax = 256;

}  // namespace

Change BestSoFar::Push(int64_t step, double value) {
  ++rows_;
  newest_.push_back(value);
  const size_t count = newest_.size();
  for (size_t i = 0; i < noises_.size(); ++i) {
    const size_t length = kBlocks[i];
    if (count < 2 * length || rows_ % static_cast<int64_t>(length) != 0) continue;
    double difference = 0;
    for (size_t k = 1; k <= length; ++k) {
      difference += newest_[count - k] - newest_[count - k - length];
    }
    // A mean of n has a root of n-th of a row's spread, a difference of two the root of twice it.
    noises_[i].Add(difference / std::sqrt(2.0 * static_cast<double>(length)));
  }
  for (size_t i = 0; i < means_.size(); ++i) {
    Mean& mean = means_[i];
    const size_t length = kRows[i];
    mean.sum += value;
    if (count > length) mean.sum -= newest_[count - 1 - length];
    const int64_t every = static_cast<int64_t>(length) / kLooksPerMean;
    if (count < length || rows_ % every != 0) continue;
    const double n = static_cast<double>(length);
    double row_spread = 0;
    for (size_t k = 0; k < noises_.size() && 4 * kBlocks[k] <= length; ++k) {
      row_spread = std::max(row_spread, noises_[k].Spread());
    }
    double newest = 0;
    const size_t quarter = length / kLooksPerMean;
    for (size_t k = 1; k <= quarter; ++k) newest += newest_[count - k];
    newest /= static_cast<double>(quarter);
    Look(step, {.all = mean.sum / n, .newest = newest, .spread = row_spread / std::sqrt(n)}, &mean);
  }
  if (count > kRows.back()) newest_.pop_front();
  for (const Mean& mean : means_) {
    if (mean.change.lasts) return mean.change;
  }
  return means_.front().change;
}

void BestSoFar::Look(int64_t step, const Means& now, Mean* mean) const {
  const double sign = static_cast<double>(limits_.side);
  Change& change = mean->change;
  change.now = now.all;
  change.noise = now.spread;
  if (mean->bests.empty()) {
    mean->bests.emplace_back(step, now.all);
    change.before_step = step;
    change.before = now.all;
    return;
  }
  change.known = true;
  change.before = mean->bests.back().second;
  const double excess = sign * (now.all - change.before);
  // What was worse and came back by itself is how this series wanders.
  mean->peak = std::max(mean->peak, excess);
  if (excess < kHealed * mean->peak) {
    mean->largest = std::max(mean->largest, mean->peak);
    mean->peak = std::max(excess, 0.0);
  }
  if (change.lasts && excess >= kHealed * std::abs(change.limit - change.before)) return;
  const double limit = std::max({limits_.size * std::abs(change.before),
                                 limits_.noises * now.spread, kUnlikeThePast * mean->largest});
  change.limit = change.before + sign * limit;
  // A spike that has healed is still in the mean, but not in its newest rows.
  const bool worse = excess > limit && sign * (now.newest - change.before) > kHealed * limit;
  mean->looks = worse ? mean->looks + 1 : 0;
  change.lasts = mean->looks >= kLooksToTell;
  if (change.lasts || excess >= 0) return;
  change.before_step = step;
  mean->bests.emplace_back(step, now.all);
  if (mean->bests.size() > kBestsMax) mean->bests.pop_front();
}

void BestSoFar::Resume(int64_t step) {
  newest_.clear();
  for (Mean& mean : means_) {
    mean.sum = 0;
    while (!mean.bests.empty() && mean.bests.back().first >= step) mean.bests.pop_back();
    if (mean.bests.empty() || mean.change.before_step >= step) mean.change.lasts = false;
    mean.change.before_step = mean.bests.empty() ? 0 : mean.bests.back().first;
  }
}

}  // namespace foreshock::detect
