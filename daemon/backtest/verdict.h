// What the alerts of a run are worth, given what is known of the run; and the sums over runs. Only
// alerts of warning or above count for a run; single rules are judged by whatever they say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/backtest/backtest.h"
#include "daemon/backtest/labels.h"
#include "daemon/rules/rule_set.h"

namespace foreshock::backtest {

// A warning must come before the loss breaks, or, where a label says it, before the harm; where
// that is at most kCloseSteps after the injection nothing can lead, and within kSlackSteps of the
// injection is early enough.
inline constexpr int64_t kCloseSteps = 50;
inline constexpr int64_t kSlackSteps = 200;

// One rule or signature in one run.
struct RuleOutcome {
  std::string rule;
  bool signature = false;
  std::string fault;
  std::string severity;               // the gravest it reached in this run
  int64_t first_step = 0;             // it fired
  size_t first_alert = 0;             // place in RunResult::alerts
  size_t last_alert = 0;              // the newest; the same if it fired once
  uint64_t alerts = 0;                // times it fired
  uint64_t healthy_alerts = 0;        // of them on steps known to be healthy
  std::optional<int64_t> fault_step;  // its first alert after the injection
  std::optional<int64_t> lead_steps;  // from fault_step (or first_step, without a label) to the
                                      // loss break; negative: after it
  std::optional<bool> named;          // it names the injected fault; unset: nothing to compare
};

struct RunVerdict {
  enum class Kind {
    kNone,   // no label
    kShown,  // unscored
    kHolds,
    kMissed,  // `reason` says how
  };
  Kind kind = Kind::kNone;
  std::string reason;
  std::string split;  // empty without a label
  std::string fault;  // injected
  std::optional<int64_t> injection_step;
  std::optional<int64_t> loss_break_step;  // the label's, else the computed one
  std::optional<size_t> first_warning;     // place in RunResult::alerts
  std::optional<int64_t> lead_steps;       // of the first warning
  std::optional<bool> named;               // the first warning names the injected fault
  std::optional<int64_t> harm_step;        // the label's; what leads are measured to if it is there
  std::optional<bool> layers_right;        // the first warning has the layers of the label
  bool healthy_known = false;              // the next three mean something
  uint64_t healthy_steps = 0;
  uint64_t false_alarms = 0;          // warnings that began on healthy steps
  uint64_t false_critical = 0;        // of them, critical while healthy
  std::vector<RuleOutcome> outcomes;  // rules that fired, in the order of the first time
};

// `label`: nullptr without one.
RunVerdict JudgeRun(const rules::RuleSet& rules, const RunResult& result, const RunLabel* label);

// Sums over the runs of one split.
struct SplitSummary {
  struct OfRule {
    std::string rule{};
    bool signature = false;
    std::string severity;      // the gravest it reached
    uint64_t faults_seen = 0;  // faulty runs in which it fired after the injection
    uint64_t nameable = 0;     // of them, where both it and the label name a fault
    uint64_t named = 0;        // of these, the same one
    uint64_t healthy_alerts = 0;
    std::optional<int64_t> median_lead_steps{};
  };
  std::string split;  // empty: runs without a label
  uint64_t runs = 0;
  uint64_t steps = 0;
  uint64_t warnings = 0;  // of warning or above, right or wrong
  uint64_t faulty = 0;    // runs in which an alarm is expected
  uint64_t in_time = 0;
  uint64_t quiet = 0;   // runs in which none is expected
  uint64_t silent = 0;  // of them without a warning
  uint64_t missed = 0;  // verdicts
  uint64_t named = 0;   // first warnings that name the injected fault
  uint64_t nameable = 0;
  uint64_t layers_right = 0;  // first warnings in the layers that have the fault
  uint64_t layered = 0;       // first warnings where the label says the layers
  uint64_t healthy_steps = 0;
  uint64_t false_alarms = 0;
  uint64_t false_critical = 0;
  std::optional<int64_t> median_lead_steps{};
  std::vector<OfRule> rules;  // those that fired, in the order of the rule files
};

struct JudgedRun {
  const RunResult* result = nullptr;
  const RunVerdict* verdict = nullptr;
};

// One per split, in the order in which the splits come first.
std::vector<SplitSummary> SummariseRuns(const rules::RuleSet& rules,
                                        const std::vector<JudgedRun>& runs);

// Events per 10 000 steps; 0 for no steps.
double PerTenThousand(uint64_t events, uint64_t steps);
// The one-sided upper 95 % limit of that rate, if events come independently of each other
// (Poisson): what `events` in `steps` still allow.
double PerTenThousandUpper(uint64_t events, uint64_t steps);

}  // namespace foreshock::backtest
