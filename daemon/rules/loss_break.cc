#include "daemon/rules/loss_break.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::rules {
namespace {

constexpr double kFastDecay = 0.96;
constexpr double kSlowDecay = 0.98;
constexpr double kBreakFactor = 1.2;
constexpr double kHealFactor = 1.1;

std::optional<int64_t> RiseStep(absl::Span<const LossSample> losses) {
  double fast = 0;
  double slow = 0;
  double best = std::numeric_limits<double>::infinity();
  std::optional<int64_t> since;
  for (const LossSample& sample : losses) {
    if (!std::isfinite(sample.loss)) continue;
    if (std::isinf(best)) {
      fast = slow = sample.loss;
    } else {
      fast = kFastDecay * fast + (1 - kFastDecay) * sample.loss;
      slow = kSlowDecay * slow + (1 - kSlowDecay) * sample.loss;
    }
    best = std::min(best, slow);
    if (best <= 0) return std::nullopt;
    if (!since && fast > kBreakFactor * best) {
      since = sample.step;
    } else if (since && fast < kHealFactor * best) {
      since.reset();
    }
  }
  return since;
}

std::optional<int64_t> NonFiniteStep(absl::Span<const LossSample> losses) {
  // From the back, so that the share among what follows is a running count. The first such sample
  // in step order is the last one met.
  std::optional<int64_t> first;
  size_t nonfinite = 0;
  for (size_t i = losses.size(); i-- > 0;) {
    if (std::isfinite(losses[i].loss)) continue;
    ++nonfinite;
    if (2 * nonfinite > losses.size() - i) first = losses[i].step;
  }
  return first;
}

}  // namespace

std::optional<int64_t> LossBreakStep(absl::Span<const LossSample> losses) {
  const std::optional<int64_t> rise = RiseStep(losses);
  const std::optional<int64_t> nonfinite = NonFiniteStep(losses);
  if (!rise) return nonfinite;
  if (!nonfinite) return rise;
  return std::min(*rise, *nonfinite);
}

}  // namespace foreshock::rules
