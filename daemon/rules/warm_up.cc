#include "daemon/rules/warm_up.h"

#include <algorithm>
#include <cmath>

#include "daemon/base/order_statistics.h"

namespace foreshock::rules {
namespace {

constexpr double kFlat = 1.02;           // a rise below this over the window is no rise
constexpr double kChange = 1.2;          // of learning rate or batch size: another regime
constexpr double kPlateauMargin = 1.05;  // a rise to at most this over the plateau is a schedule
constexpr double kRewarm = 0.9;
constexpr size_t kLrLag = 5;
constexpr size_t kTokensWindow = 20;   // to tell a steady batch size from a jittering one
constexpr size_t kJitterWindow = 100;  // medians of so many steps are compared then
// A flat piece longer than this, and than twice what came before it, is no stair of a warm-up.
constexpr size_t kStairMin = 100;
constexpr int64_t kSettleSteps = 150;
constexpr int64_t kSettleWindows = 10;
constexpr size_t kPastMax = 1u << 16;
constexpr size_t kWarmUpSamplesMax = 1u << 20;  // a warm-up longer than this never ends

size_t FlatWindow(size_t n) { return std::max<size_t>(kLrLag, (n + 19) / 20); }

}  // namespace

void Schedule::BeginAttempt() { first_of_attempt_ = true; }

void Schedule::Resume(const StepInput& input) {
  first_of_attempt_ = false;
  attempt_lr_.clear();
  lr_samples_ = 0;
  const bool is_resume = !past_.empty();
  std::optional<double> parent_lr;
  for (auto it = past_.rbegin(); it != past_.rend() && !parent_lr.has_value(); ++it) {
    if (it->step <= input.step) parent_lr = it->lr;
  }
  while (!past_.empty() && past_.back().step >= input.step) past_.pop_back();
  tokens_.clear();
  if (!past_.empty() && past_.back().tokens > 0) tokens_.push_back(past_.back().tokens);
  if (is_resume && parent_lr.has_value() && input.lr.has_value() &&
      *input.lr < kRewarm * *parent_lr) {
    open_ = false;
    settled_ = false;
    plateau_inherited_ = plateau_.has_value();
  }
}

void Schedule::Open(int64_t step, double plateau) {
  open_ = true;
  open_step_ = step;
  if (!plateau_inherited_) plateau_ = plateau;
}

void Schedule::WatchWarmUp(const StepInput& input) {
  if (!input.lr.has_value()) {
    // Nothing to wait for but the settling time.
    if (!open_ && lr_samples_ == 0) {
      open_ = true;
      open_step_ = input.step;
    }
    return;
  }
  const double lr = *input.lr;
  attempt_lr_.push_back(lr);
  const size_t n = lr_samples_++;
  const size_t stair = std::max(kStairMin, 2 * open_sample_);
  if (open_ && !settled_ && !plateau_inherited_ && plateau_.has_value() &&
      n - open_sample_ <= stair && lr > kFlat * *plateau_) {
    open_ = false;
    plateau_.reset();
  }
  if (!open_ || !plateau_.has_value()) {
    const size_t w = FlatWindow(n);
    if (n >= 2 * w && attempt_lr_.size() > w) {
      const auto first = attempt_lr_.end() - static_cast<std::ptrdiff_t>(w) - 1;
      if (*first > 0 && lr <= kFlat * *first) {
        if (!open_) open_sample_ = n;
        Open(open_ ? open_step_ : input.step, *std::max_element(first, attempt_lr_.end()));
      }
    }
  }
  // Once settled only the newest few are needed, before that a twentieth of the attempt.
  const size_t needed = settled_ ? kLrLag + 1 : kWarmUpSamplesMax;
  if (attempt_lr_.size() >= 2 * needed) {
    attempt_lr_.erase(attempt_lr_.begin(), attempt_lr_.end() - static_cast<std::ptrdiff_t>(needed));
  }
}

bool Schedule::LrChanged(double lr) const {
  if (!open_ || attempt_lr_.size() <= kLrLag) return false;
  const double before = attempt_lr_[attempt_lr_.size() - 1 - kLrLag];
  if (before <= 0) return false;
  const double ratio = lr / before;
  if (ratio < 1 / kChange) return true;
  // A rise above the plateau is what a rule must see: it is no re-base.
  return ratio > kChange && plateau_.has_value() && lr <= kPlateauMargin * *plateau_;
}

bool Schedule::TokensChanged(double tokens) {
  if (tokens <= 0) return false;
  const double limit = std::log(kChange);
  bool changed = false;
  if (tokens_.size() >= kTokensWindow) {
    const auto first = tokens_.end() - static_cast<std::ptrdiff_t>(kTokensWindow);
    const auto [low, high] = std::minmax_element(first, tokens_.end());
    tokens_jitter_ = *high > kChange * *low;
  }
  if (!tokens_jitter_) {
    changed = !tokens_.empty() && std::abs(std::log(tokens / tokens_.back())) > limit;
  } else if (tokens_.size() >= 2 * kJitterWindow) {
    // Packed batches jitter: only a lasting change counts.
    const auto middle = tokens_.end() - static_cast<std::ptrdiff_t>(kJitterWindow);
    const std::vector<double> newer(middle, tokens_.end());
    const std::vector<double> older(middle - static_cast<std::ptrdiff_t>(kJitterWindow), middle);
    changed = std::abs(std::log(base::Median(newer) / base::Median(older))) > limit;
  }
  // With fewer it is not known yet whether they jitter.
  if (changed && tokens_.size() >= kTokensWindow) tokens_.clear();
  tokens_.push_back(tokens);
  if (tokens_.size() > 2 * kJitterWindow) tokens_.pop_front();
  return changed && open_;
}

uint8_t Schedule::Declared(const StepInput& input) {
  uint8_t causes = 0;
  for (const v1::Event& event : input.events) {
    switch (event.kind()) {
      case v1::EVENT_KIND_WARMUP_END:
        plateau_inherited_ = false;
        Open(std::min(event.step(), input.step),
             input.lr.value_or(attempt_lr_.empty() ? 0 : attempt_lr_.back()));
        if (*plateau_ <= 0) plateau_.reset();
        break;
      case v1::EVENT_KIND_LR_PHASE:
        causes |= kRebaseLr;
        if (open_ && input.lr.has_value()) plateau_ = *input.lr;
        break;
      case v1::EVENT_KIND_BATCH_SIZE:
        causes |= kRebaseBatchSize;
        break;
      case v1::EVENT_KIND_DATA_CHANGE:
        causes |= kRebaseData;
        break;
      default:
        break;
    }
  }
  return causes;
}

uint8_t Schedule::Push(const StepInput& input) {
  if (first_of_attempt_) Resume(input);
  WatchWarmUp(input);
  uint8_t causes = Declared(input);
  if (input.lr.has_value() && LrChanged(*input.lr)) causes |= kRebaseLr;
  if (TokensChanged(input.tokens)) causes |= kRebaseBatchSize;
  if (input.snapshot_window > 0) snapshot_window_ = input.snapshot_window;
  const int64_t settle = snapshot_window_ > 0
                             ? std::min(kSettleSteps, kSettleWindows * snapshot_window_)
                             : kSettleSteps;
  if (open_ && input.step - open_step_ >= settle) settled_ = true;
  if (past_.size() >= 2 * kPastMax) {
    past_.erase(past_.begin(), past_.end() - static_cast<std::ptrdiff_t>(kPastMax));
  }
  past_.push_back({input.step, input.lr, input.tokens});
  return causes;
}

}  // namespace foreshock::rules
