#include "daemon/rules/baseline.h"

#include <algorithm>
#include <cmath>

namespace foreshock::rules {
namespace {

constexpr double kMadToSigma = 1.4826;  // of a normal distribution

// The two middle ones of the distances |x - median|, averaged: walks outwards from the median, so
// that the distances come in order.
double MedianDistance(const std::vector<double>& sorted, double median) {
  const size_t n = sorted.size();
  size_t right =
      static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), median) - sorted.begin());
  size_t left = right;  // next on the left is left - 1
  double lower = 0;
  double upper = 0;
  for (size_t i = 0; i <= n / 2; ++i) {
    const bool take_right =
        left == 0 || (right < n && sorted[right] - median <= median - sorted[left - 1]);
    const double distance = take_right ? sorted[right++] - median : median - sorted[--left];
    if (i == (n - 1) / 2) lower = distance;
    if (i == n / 2) upper = distance;
  }
  return 0.5 * (lower + upper);
}

}  // namespace

Baseline RobustBaseline(const std::vector<double>& sorted, double spread_floor) {
  const size_t n = sorted.size();
  const double median = 0.5 * sorted[(n - 1) / 2] + 0.5 * sorted[n / 2];
  const double spread = kMadToSigma * MedianDistance(sorted, median);
  return {.median = median, .spread = std::max(spread, spread_floor * std::abs(median))};
}

size_t SampleWindow::Last() const {
  const size_t held_back = static_cast<size_t>(spec_->lag - 1);
  return accepted_.size() > held_back ? accepted_.size() - held_back : 0;
}

void SampleWindow::Accept(int64_t step, double value) {
  const BaselineSpec& spec = *spec_;
  const size_t n = static_cast<size_t>(spec.samples);
  if (spec.kind == BaselineSpec::Kind::kAnchored) {
    if (accepted_.size() >= n) return;
    accepted_.push_back({step, value});
    sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), value), value);
    if (accepted_.size() == n) anchor_ = RobustBaseline(sorted_, spec.spread_floor);
    return;
  }
  if (spec.kind != BaselineSpec::Kind::kTrailing) return;
  accepted_.push_back({step, value});
  const size_t last = Last();
  if (last == 0) return;
  const double enters = accepted_[last - 1].value;
  if (last > n) {
    const double leaves = accepted_[last - 1 - n].value;
    sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), leaves));
  }
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), enters), enters);
  // Twice the window is kept, so that a resume from a window ago still finds its baseline; cut in
  // blocks, so that the cost per sample stays constant.
  const size_t needed = 2 * (n + static_cast<size_t>(spec.lag) - 1);
  if (accepted_.size() >= needed + needed / 2) {
    accepted_.erase(accepted_.begin(),
                    accepted_.begin() + static_cast<std::ptrdiff_t>(accepted_.size() - needed));
  }
}

std::optional<Baseline> SampleWindow::Get() const {
  if (anchor_.has_value()) return anchor_;
  if (sorted_.empty() || sorted_.size() < static_cast<size_t>(spec_->min_samples)) {
    return std::nullopt;
  }
  return RobustBaseline(sorted_, spec_->spread_floor);
}

void SampleWindow::Sort() {
  const bool anchored = spec_->kind == BaselineSpec::Kind::kAnchored;
  const size_t n = static_cast<size_t>(spec_->samples);
  const size_t last = anchored ? accepted_.size() : Last();
  const size_t first = last > n ? last - n : 0;
  sorted_.clear();
  for (size_t i = first; i < last; ++i) sorted_.push_back(accepted_[i].value);
  std::sort(sorted_.begin(), sorted_.end());
}

void SampleWindow::DropFrom(int64_t step) {
  const size_t before = accepted_.size();
  while (!accepted_.empty() && accepted_.back().step >= step) accepted_.pop_back();
  if (accepted_.size() == before) return;
  anchor_.reset();
  Sort();
}

void SampleWindow::Clear() {
  accepted_.clear();
  sorted_.clear();
  anchor_.reset();
}

}  // namespace foreshock::rules
