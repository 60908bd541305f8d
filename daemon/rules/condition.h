// The alerts as a signature sees them at one step, and whether its conditions hold.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/rules/live_alert.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {

class SignatureJudge;

// Signatures further down in the file are seen as they were after the previous step.
struct AlertsView {
  const std::vector<std::unique_ptr<RuleJudge>>& rules;
  const std::vector<SignatureJudge>& signatures;
  int64_t step = 0;
  int64_t attempt_start = 0;
  uint32_t attempt = 0;
  bool resumed = false;  // the attempt has a parent

  const LiveAlert& Live(AlertRef ref) const;
  bool Firing(AlertRef ref) const { return Live(ref).active; }
  // Firing, or resolved at most `window` steps ago.
  bool Present(AlertRef ref, int64_t window) const;
};

// `window`: an alert counts for so many steps after it has resolved.
bool Holds(const Condition& condition, const AlertsView& view, int64_t window);

// Which alerts of a condition count: all that are present, or only those of its parts that hold. Of
// `{all: [a, b]}` with a alone, a is present and makes nothing hold.
enum class Parts : uint8_t { kAll, kHolding };

// Adds the alerts of a condition that are present.
void PresentAlerts(const Condition& condition, const AlertsView& view, int64_t window, Parts parts,
                   std::vector<AlertRef>* out);

}  // namespace foreshock::rules
