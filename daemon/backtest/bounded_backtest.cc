#include "daemon/backtest/bounded_backtest.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"

namespace foreshock::backtest {
namespace {

// Rules by what they look at.
using Uses = absl::flat_hash_map<std::string, uint64_t>;

Uses UsesOf(const rules::CompiledRules& rules) {
  Uses uses;
  for (const auto& rule : rules.rules) {
    for (const std::string& indicator : rule->input.indicators) ++uses[indicator];
  }
  return uses;
}

uint64_t UsesOf(const Uses& uses, const std::string& indicator) {
  const auto found = uses.find(indicator);
  return found == uses.end() ? 0 : found->second;
}

}  // namespace

absl::Status CheckSubjects(const store::Store& store, const std::string& run,
                           const rules::CompiledRules& rules, const BacktestLimits& limits) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::SeriesKey> series, store.Series(run, {}));
  const Uses uses = UsesOf(rules);
  uint64_t subjects = 0;
  for (const model::SeriesKey& key : series) subjects += UsesOf(uses, key.indicator);
  if (subjects <= limits.subjects_max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the rules look at ", subjects, " series of this run, one that two rules look at counted ",
      "twice; at most ", limits.subjects_max, " are allowed here. Try fewer rules, or all of them ",
      "with `foreshock rules backtest`"));
}

BoundedBacktest::BoundedBacktest(std::shared_ptr<const rules::CompiledRules> rules,
                                 const BacktestLimits& limits,
                                 const std::function<bool()>& cancelled)
    : limits_(limits),
      cancelled_(cancelled),
      uses_(UsesOf(*rules)),
      // What was announced and did not come is judged by everything that did.
      judges_all_(std::any_of(rules->rules.begin(), rules->rules.end(),
                              [](const auto& rule) {
                                return std::holds_alternative<rules::CoverageSpec>(rule->detector);
                              })),
      deadline_(base::SteadyNow() + limits.time_max),
      backtest_(std::move(rules)) {}

void BoundedBacktest::OnStep(const model::ClosedStep& step) {
  backtest_.OnStep(step);
  for (const model::Sample& sample : step.samples)
    judged_ += UsesOf(uses_, sample.series.indicator);
  if (judged_ >= limits_.judged_max) {
    stopped_ = absl::StrCat("the rules have judged ", limits_.judged_max, " values");
  } else if (base::SteadyNow() >= deadline_) {
    stopped_ = absl::StrCat("it took ", absl::FormatDuration(limits_.time_max));
  }
  gone_ = cancelled_();
}

}  // namespace foreshock::backtest
