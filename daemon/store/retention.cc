#include "daemon/store/retention.h"

#include <algorithm>
#include <limits>

namespace foreshock::store {
namespace {

using Kind = RetentionStep::Kind;

// A decision because of a budget treats at least so many steps, so that there are few decisions.
constexpr int64_t kBudgetSteps = 16 * kRetentionSteps;
// How much smaller raw points get when they are downsampled, in sixteenths. Measured where points
// are dense, a guess elsewhere. It only affects how many steps one decision treats.
constexpr uint64_t kGainSixteenths = 12;

int64_t AlignDown(int64_t step) { return step & ~(kRetentionSteps - 1); }

bool Ended(const RunFacts& run, absl::Time now) {
  return run.ended || run.newest + kSilentEnd <= now;
}

int64_t LastStep(const RunFacts& run) {
  int64_t last = std::numeric_limits<int64_t>::min();
  // Where attempts overlap, the newest one counts.
  if (!run.attempts.empty()) last = run.attempts.back().last_step;
  return last;
}

// Returns the first step of an attempt that stays raw whatever the budget; in an ended run none
// does.
int64_t BudgetLimit(const RunFacts& run, const AttemptFacts& attempt, absl::Time now) {
  if (Ended(run, now)) return AlignDown(attempt.last_step) + kRetentionSteps;
  return AlignDown(std::min(attempt.last_step, LastStep(run) - kLiveRawSteps) + 1);
}

std::optional<RetentionStep> ByAge(const RetentionOptions& options, const RunFacts& run,
                                   absl::Time now) {
  const bool ended = Ended(run, now);
  const auto older = [&](absl::Duration age) {
    return age > absl::ZeroDuration() && run.newest + age <= now;
  };
  if (ended && run.empty && older(options.alerts_for)) {
    return RetentionStep{Kind::kDeleteRun, run.name, 0, 0, "alerts_for"};
  }
  if (ended && !run.empty && older(options.runs_for)) {
    return RetentionStep{Kind::kEmptyRun, run.name, 0, 0, "runs_for"};
  }
  if (run.empty) return std::nullopt;
  for (const AttemptFacts& attempt : run.attempts) {
    int64_t before = std::numeric_limits<int64_t>::max();
    if (options.raw_for > absl::ZeroDuration()) before = attempt.raw_age_step;
    if (options.raw_steps > 0) {
      before = std::min(before, LastStep(run) - options.raw_steps + 1);
    }
    if (before == std::numeric_limits<int64_t>::max()) before = attempt.first_step;
    before = AlignDown(std::min(before, BudgetLimit(run, attempt, now)));
    if (before > attempt.downsampled_before) {
      return RetentionStep{Kind::kDownsample, run.name, attempt.number, before,
                           options.raw_for > absl::ZeroDuration() ? "raw_for" : "raw_steps"};
    }
    const int64_t gone = AlignDown(std::min(attempt.kept_age_step, attempt.downsampled_before));
    if (options.downsampled_for > absl::ZeroDuration() && gone > attempt.dropped_before) {
      return RetentionStep{Kind::kDropPoints, run.name, attempt.number, gone, "downsampled_for"};
    }
  }
  return std::nullopt;
}

// Estimates how many steps of a run must be treated to free `excess` bytes.
int64_t StepsFor(const RunFacts& run, uint64_t excess) {
  uint64_t steps = 0;
  for (const AttemptFacts& attempt : run.attempts) {
    steps +=
        static_cast<uint64_t>(std::max<int64_t>(0, attempt.last_step - attempt.dropped_before + 1));
  }
  const double per_step =
      static_cast<double>(run.bytes) / static_cast<double>(std::max<uint64_t>(1, steps));
  const double wanted =
      static_cast<double>(excess) * 16 / kGainSixteenths / std::max(per_step, 1e-3);
  const double most = 1e15;
  return std::max(kBudgetSteps, AlignDown(static_cast<int64_t>(std::min(wanted, most))));
}

std::optional<RetentionStep> DownsampleOldest(const RunFacts& run, uint64_t excess,
                                              absl::string_view reason, absl::Time now) {
  if (run.pinned || run.empty) return std::nullopt;
  for (const AttemptFacts& attempt : run.attempts) {
    const int64_t limit = BudgetLimit(run, attempt, now);
    if (limit <= attempt.downsampled_before) continue;
    const int64_t before =
        std::min(limit, AlignDown(attempt.downsampled_before) + StepsFor(run, excess));
    return RetentionStep{Kind::kDownsample, run.name, attempt.number, before, reason};
  }
  return std::nullopt;
}

std::optional<RetentionStep> DropOldest(const RunFacts& run, uint64_t excess,
                                        absl::string_view reason) {
  if (run.pinned || run.empty) return std::nullopt;
  for (const AttemptFacts& attempt : run.attempts) {
    const int64_t limit = AlignDown(attempt.downsampled_before);
    if (limit <= attempt.dropped_before) continue;
    const int64_t before =
        std::min(limit, AlignDown(attempt.dropped_before) + StepsFor(run, excess));
    return RetentionStep{Kind::kDropPoints, run.name, attempt.number, before, reason};
  }
  return std::nullopt;
}

// Decides for one run that is too large.
std::optional<RetentionStep> ByRunBytes(const RunFacts& run, uint64_t bytes_max, absl::Time now) {
  if (bytes_max == 0 || run.bytes <= bytes_max) return std::nullopt;
  const uint64_t excess = run.bytes - bytes_max;
  auto step = DownsampleOldest(run, excess, "run_bytes_max", now);
  if (!step.has_value()) step = DropOldest(run, excess, "run_bytes_max");
  return step;
}

}  // namespace

std::optional<RetentionStep> NextRetentionStep(const RetentionOptions& options,
                                               absl::Span<const RunFacts> runs,
                                               uint64_t store_bytes, absl::Time now) {
  std::vector<const RunFacts*> oldest_first;
  for (const RunFacts& run : runs) {
    if (!run.pinned) oldest_first.push_back(&run);
  }
  std::stable_sort(oldest_first.begin(), oldest_first.end(),
                   [](const RunFacts* a, const RunFacts* b) { return a->newest < b->newest; });
  for (const RunFacts* run : oldest_first) {
    if (auto step = ByAge(options, *run, now)) return step;
    if (auto step = ByRunBytes(*run, options.run_bytes_max, now)) return step;
  }
  if (options.bytes_max == 0 || store_bytes <= options.bytes_max) return std::nullopt;
  const uint64_t excess = store_bytes - options.bytes_max;
  for (const RunFacts* run : oldest_first) {
    if (auto step = DownsampleOldest(*run, excess, "bytes_max", now)) return step;
  }
  for (const RunFacts* run : oldest_first) {
    if (Ended(*run, now) && !run->empty) {
      return RetentionStep{Kind::kEmptyRun, run->name, 0, 0, "bytes_max"};
    }
  }
  for (const RunFacts* run : oldest_first) {
    if (auto step = DropOldest(*run, excess, "bytes_max")) return step;
  }
  return std::nullopt;
}

}  // namespace foreshock::store
