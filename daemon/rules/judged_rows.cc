#include "daemon/rules/judged_rows.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/rules/siblings.h"

namespace foreshock::rules {

std::string WhyNotJudged(const Rule& rule, const JudgedRows& rows) {
  const std::string indicators = absl::StrJoin(rule.input.indicators, ", ");
  switch (rows.why) {
    case NotJudged::kNoSeries:
      return absl::StrCat("no value of ", indicators, " has come");
    case NotJudged::kMarked:
      return absl::StrCat("values of ", indicators,
                          " carry a mark that the rule does not judge (`judge_flags` allows it)");
    case NotJudged::kNotAll:
      return absl::StrCat(indicators, " have not all come at one step");
    case NotJudged::kNoDivisor:
      return absl::StrCat(rule.input.divide_by, ", by which it is divided, has not come");
    case NotJudged::kWarmUp:
      return "the learning rate's warm-up has not ended, or the run has not settled behind it";
    case NotJudged::kFewSiblings:
      return absl::StrCat("fewer than ", Siblings::kMin + 1,
                          " layers, heads or ranks have a value above 0 at one step");
    case NotJudged::kOtherWindow:
      return "its weights were sampled after another number of steps than before";
    case NotJudged::kLittleKnown:
      break;
  }
  if (ComparesAttempts(rule.detector)) return "no attempt has run these steps before";
  return absl::StrCat(rows.seen, rows.seen == 1 ? " row has" : " rows have",
                      " come, too few to know what is usual");
}

v1::RuleJudging RuleJudgingOf(const Rule& rule, const JudgedRows& rows, size_t series) {
  v1::RuleJudging judging;
  judging.set_rule(rule.name);
  if (rows.from_step.has_value()) judging.set_from_step(*rows.from_step);
  judging.set_rows(static_cast<uint64_t>(rows.judged));
  judging.set_rows_seen(static_cast<uint64_t>(rows.seen));
  judging.set_series(static_cast<uint32_t>(series));
  if (rows.judged == 0) judging.set_why_not(WhyNotJudged(rule, rows));
  return judging;
}

}  // namespace foreshock::rules
