#include "daemon/rules/progress.h"

#include <algorithm>
#include <vector>

namespace foreshock::rules {
namespace {

constexpr size_t kTimesMax = 32;
constexpr size_t kRestartsMax = 1001;  // rules count up to 1 000

}  // namespace

void Progress::BeginAttempt(std::optional<int64_t> reached) {
  if (reached.has_value()) reached_ = std::max(reached_, *reached);
  if (first_begun_) begun_at_.push_back(reached_);
  if (begun_at_.size() > kRestartsMax) begun_at_.pop_front();
  first_begun_ = true;
  step_closed_ = false;
  since_ns_.reset();
  waiting_ns_ = 0;
}

void Progress::StepClosed(int64_t step, std::optional<double> seconds) {
  reached_ = std::max(reached_, step);
  step_closed_ = true;
  since_ns_.reset();
  waiting_ns_ = 0;
  if (!seconds.has_value()) return;
  seconds_.push_back(*seconds);
  if (seconds_.size() > kTimesMax) seconds_.pop_front();
}

void Progress::Tick(int64_t now_unix_ns, Life life) {
  if (life != Life::kLive) {
    since_ns_.reset();
    waiting_ns_ = 0;
    return;
  }
  // A clock that was set back starts the wait again.
  if (!since_ns_.has_value() || now_unix_ns < *since_ns_) since_ns_ = now_unix_ns;
  waiting_ns_ = now_unix_ns - *since_ns_;
}

std::optional<double> Progress::median_step_seconds() const {
  if (seconds_.empty()) return std::nullopt;
  std::vector<double> sorted(seconds_.begin(), seconds_.end());
  std::sort(sorted.begin(), sorted.end());
  return 0.5 * (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]);
}

int Progress::RestartsWithin(int64_t steps) const {
  return static_cast<int>(std::count_if(begun_at_.begin(), begun_at_.end(), [&](int64_t begun_at) {
    return reached_ - begun_at < steps;
  }));
}

}  // namespace foreshock::rules
