// How far a rule has judged a run: from which step on, how many rows, and what kept it from others.
// Silence of a rule that has judged nothing is not health.
//
//   JudgedRows rows;
//   rows.Row(step, /*seen=*/true, /*judged=*/false);
//   rows.why = NotJudged::kLittleKnown;
//   Show(WhyNotJudged(rule, rows));
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/rules/rule.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::rules {

// Why a value was not judged. Stored: never renumber.
enum class NotJudged : uint8_t {
  kNoSeries = 0,     // none has come
  kMarked = 1,       // by a flag that the rule does not take
  kNotAll = 2,       // indicators that are combined did not come at one step
  kNoDivisor = 3,    // nothing to divide by
  kWarmUp = 4,       // the learning rate has not settled
  kFewSiblings = 5,  // to compare with
  kLittleKnown = 6,  // of the series' past
  kOtherWindow = 7,  // an update over another number of steps than those before
};

// Thread-compatible.
struct JudgedRows {
  std::optional<int64_t> from_step;      // the first one judged
  int64_t judged = 0;                    // rows with a verdict
  int64_t seen = 0;                      // rows with a value, judged or not
  NotJudged why = NotJudged::kNoSeries;  // of the newest value without a verdict

  void Row(int64_t step, bool has_value, bool has_verdict) {
    if (has_value) ++seen;
    if (!has_verdict) return;
    ++judged;
    if (!from_step.has_value()) from_step = step;
  }

  template <typename A>
  void serialize(A& archive) {
    archive(from_step, judged, seen, why);
  }
};

// What kept the newest value from being judged, in words: "its learning rate ...".
std::string WhyNotJudged(const Rule& rule, const JudgedRows& rows);

// `series`: how many the rule looks at. The reason stands only beside a rule that judged nothing.
v1::RuleJudging RuleJudgingOf(const Rule& rule, const JudgedRows& rows, size_t series);

}  // namespace foreshock::rules
