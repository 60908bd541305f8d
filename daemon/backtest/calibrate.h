// Limits for rules from healthy runs and a budget of false alerts. How and how far to trust it:
// docs/calibration.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/backtest/healthy.h"

namespace foreshock::backtest {

// "1 page per 30 days", "2 warnings per 1e6 steps": how many alerts of which severity healthy runs
// may see.
struct Budget {
  std::string severity = "critical";  // at least; a page is a critical alert
  double alerts = 1;
  double steps = 0;    // per so many steps, or
  double seconds = 0;  // per so much time; one of the two is 0
};

// N [page[s]|warning[s]|alert[s]] per [N] step[s]|hour[s]|day[s]|week[s].
absl::StatusOr<Budget> ParseBudget(absl::string_view text);

struct CalibrationOptions {
  double alerts_per_step = 0;  // the budget
  std::string severity = "critical";
  double confidence = 0.95;    // of every bound
  bool allow_sharper = false;  // limits may also become more sensitive than they are
};

// What was found for one rule.
struct RuleCalibration {
  enum class Role : uint8_t {
    kGuard,     // its limit keeps a share of the budget
    kEvidence,  // leads to no such alert without a guard that fires too; left as it is
    kNoLimit,   // has no limit that could be set; alerts that began are counted
  };
  std::string rule;
  Role role = Role::kEvidence;
  uint64_t samples = 0;  // compared with the limit
  double steps = 0;      // over which
  size_t excursions = 0;
  std::optional<double> worst;  // healthy, as the rule compares it: what `limit` must lie beyond
  double limit_before = 0;
  double limit = 0;
  double clear_before = 0;
  double clear = 0;
  // Alerts that begin, per 1e6 steps, with `limit`: estimated, and the upper bound. Unset where
  // there is too little history.
  std::optional<double> rate;
  std::optional<double> rate_bound;
  std::string reason;  // a sentence

  bool changed() const { return limit != limit_before || clear != clear_before; }
};

struct Calibration {
  std::vector<RuleCalibration> rules;  // all of the set, in its order
  size_t guards = 0;
  double alerts_per_step = 0;                 // the budget
  double rate_shown = 0;                      // 3 / steps: what the history itself can bound
  std::vector<std::string> routes_unguarded;  // ways to such an alert past every limit, "a + b"
};

Calibration Calibrate(const HealthyHistory& healthy, const CalibrationOptions& options);

// The limits of `calibration` in the set.
std::shared_ptr<const rules::CompiledRules> WithLimits(const rules::CompiledRules& rules,
                                                       const Calibration& calibration);

// The file with the limits of `calibration` in it and a comment above each that changed; the rest
// is byte for byte the same. Rules of other files are ignored. InvalidArgument, naming the rule,
// where a limit is not found in the text.
absl::StatusOr<std::string> CalibratedText(absl::string_view name, absl::string_view text,
                                           const Calibration& calibration);
// The same of a file that was read as rules; also the errors of reading it.
absl::StatusOr<std::string> CalibratedFile(const std::string& path, const Calibration& calibration);

}  // namespace foreshock::backtest
