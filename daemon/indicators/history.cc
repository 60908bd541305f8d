#include "daemon/indicators/history.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "daemon/base/order_statistics.h"

namespace foreshock::indicators {
namespace {

constexpr size_t kBaseline = 20;
constexpr size_t kSmoothing = 5;
constexpr double kMadToSigma = 1.4826;
constexpr int64_t kRateSteps = 1000;
constexpr size_t kRateMinimum = 100;
constexpr int64_t kLoadSteps = 200;
constexpr int64_t kBlockSteps = 10;
constexpr double kDeadShare = 0.01;

}  // namespace

const History::ScalarWindow* History::WindowOf(absl::string_view name) const {
  if (name == "loss") return &loss_;
  if (name == "grad_norm") return &grad_norm_;
  return nullptr;
}

void History::ObserveScalar(absl::string_view name, int64_t step, double value) {
  auto* window = const_cast<ScalarWindow*>(WindowOf(name));
  if (window == nullptr || step <= window->last_step) return;
  window->last_step = step;
  const float narrow = static_cast<float>(value);
  const double stored = std::isfinite(narrow) ? narrow : value;
  double smoothed = stored;
  if (window == &loss_) {
    window->raw.push_back(stored);
    if (window->raw.size() > kSmoothing) window->raw.pop_front();
    smoothed = base::Median({window->raw.begin(), window->raw.end()});
  }
  window->smoothed.push_back(smoothed);
  if (window->smoothed.size() > kBaseline + 1) window->smoothed.pop_front();
  if (window == &loss_) Judge(step);
}

std::optional<double> History::SpikeScore(absl::string_view name) const {
  const ScalarWindow* window = WindowOf(name);
  if (window == nullptr || window->smoothed.size() <= kBaseline) return std::nullopt;
  std::vector<double> before(window->smoothed.begin(), window->smoothed.end() - 1);
  const double median = base::Median(before);
  for (double& value : before) value = std::abs(value - median);
  const double spread = std::max(6 * kMadToSigma * base::Median(before), 0.05 * std::abs(median));
  if (spread == 0) return std::nullopt;
  return (window->smoothed.back() - median) / spread;
}

void History::Judge(int64_t step) {
  const std::optional<double> score = SpikeScore("loss");
  if (!score.has_value()) return;
  const bool spike = *score > 1;
  judged_.push_back({step, spike && !in_spike_});
  spikes_ += judged_.back().spike_begins ? 1 : 0;
  in_spike_ = spike;
  while (judged_.front().step <= step - kRateSteps) {
    spikes_ -= judged_.front().spike_begins ? 1 : 0;
    judged_.pop_front();
  }
}

std::optional<double> History::SpikeRate() const {
  if (judged_.size() < kRateMinimum) return std::nullopt;
  const double steps = static_cast<double>(judged_.back().step - judged_.front().step + 1);
  return 1000.0 * static_cast<double>(spikes_) / steps;
}

void History::ObserveTime(int64_t step, int64_t time_unix_ns) {
  if (last_time_.has_value() && step <= last_time_->first) return;
  if (time_unix_ns == 0) {
    step_seconds_ = {std::nullopt, "no_time"};
    return;
  }
  const auto before = std::exchange(last_time_, std::pair(step, time_unix_ns));
  if (!before.has_value()) {
    step_seconds_ = {std::nullopt, "no_base"};
  } else if (time_unix_ns <= before->second) {
    step_seconds_ = {std::nullopt, "clock_back"};
  } else {
    // Unsigned: clocks are the senders' and may be any two numbers apart.
    const uint64_t ns = static_cast<uint64_t>(time_unix_ns) - static_cast<uint64_t>(before->second);
    step_seconds_ = {1e-9 * static_cast<double>(ns) / static_cast<double>(step - before->first),
                     ""};
  }
}

void History::ObserveLoad(uint32_t layer, int64_t step, absl::Span<const double> counts) {
  LoadWindow& window = load_[layer];
  if (step <= window.last_step) return;
  if (window.blocks.empty() || window.blocks.back().counts.size() != counts.size()) {
    window.blocks.clear();
    window.first_step = step;
  }
  window.last_step = step;
  const int64_t block_step = step - step % kBlockSteps;
  if (window.blocks.empty() || window.blocks.back().first_step != block_step) {
    window.blocks.push_back({block_step, std::vector<double>(counts.size())});
  }
  std::vector<double>& sums = window.blocks.back().counts;
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  for (size_t e = 0; e < counts.size() && total > 0; ++e) sums[e] += counts[e] / total;
  // A block goes when the ones behind it reach back kLoadSteps.
  while (window.blocks.size() > 1 && window.blocks[1].first_step <= step - kLoadSteps + 1) {
    window.blocks.pop_front();
  }
}

std::optional<double> History::DeadFraction(uint32_t layer) const {
  const auto found = load_.find(layer);
  if (found == load_.end()) return std::nullopt;
  const LoadWindow& window = found->second;
  if (window.last_step - window.first_step + 1 < kLoadSteps) return std::nullopt;
  std::vector<double> sums(window.blocks.front().counts.size());
  double total = 0;
  for (const LoadBlock& block : window.blocks) {
    for (size_t e = 0; e < sums.size(); ++e) sums[e] += block.counts[e];
  }
  for (double sum : sums) total += sum;
  if (total == 0) return std::nullopt;
  const double experts = static_cast<double>(sums.size());
  const auto dead = std::count_if(sums.begin(), sums.end(),
                                  [&](double sum) { return sum < kDeadShare * total / experts; });
  return static_cast<double>(dead) / experts;
}

}  // namespace foreshock::indicators
