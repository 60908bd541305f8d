#include "daemon/backtest/stored_backtest.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/backtest/bounded_backtest.h"
#include "daemon/backtest/stored_steps.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/rule.h"

namespace foreshock::backtest {
namespace {

absl::StatusOr<std::shared_ptr<const rules::CompiledRules>> ReadFiles(
    const v1::BacktestRulesRequest& request, const rules::RuleSet& in_force,
    const BacktestLimits& limits) {
  size_t bytes = 0;
  for (const v1::RuleFile& file : request.files()) bytes += file.name().size() + file.text().size();
  if (bytes == 0) {
    return absl::InvalidArgumentError(
        "files: no rules are given; at least one file with `groups` or `signatures` is expected");
  }
  if (bytes > limits.files_bytes_max || request.files_size() > limits.files_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "files: ", bytes, " bytes of rules in ", request.files_size(), " files; at most ",
        limits.files_bytes_max, " in ", limits.files_max, " are allowed"));
  }
  const std::vector<v1::RuleFile> files(request.files().begin(), request.files().end());
  FORESHOCK_ASSIGN_OR_RETURN(std::shared_ptr<const rules::RuleSet> rules,
                             rules::ParseRuleFiles(files, in_force));
  if (rules->infos().empty()) {
    return absl::InvalidArgumentError(
        "files: there is no rule in them; `groups` or `signatures` with one is expected");
  }
  return std::dynamic_pointer_cast<const rules::CompiledRules>(rules);
}

absl::StatusOr<uint64_t> StepsOf(const store::Store& store, const std::string& run) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts, store.Attempts(run));
  uint64_t steps = 0;
  for (const model::AttemptRow& attempt : attempts) {
    if (attempt.has_last_step()) {
      steps += static_cast<uint64_t>(attempt.last_step() - attempt.first_step() + 1);
    }
  }
  return steps;
}

}  // namespace

absl::StatusOr<v1::BacktestRulesResponse> BacktestStoredRun(
    const store::Store& store, const rules::RuleSet& in_force,
    const v1::BacktestRulesRequest& request, const BacktestLimits& limits,
    const std::function<bool()>& cancelled) {
  if (request.run().empty()) return absl::InvalidArgumentError("run: required");
  FORESHOCK_ASSIGN_OR_RETURN(const std::shared_ptr<const rules::CompiledRules> rules,
                             ReadFiles(request, in_force, limits));
  FORESHOCK_RETURN_IF_ERROR(store.Run(request.run()).status());
  FORESHOCK_RETURN_IF_ERROR(CheckSubjects(store, request.run(), *rules, limits));
  BoundedBacktest backtest(rules, limits, cancelled);
  FORESHOCK_RETURN_IF_ERROR(ReadStoredSteps(store, request.run(), nullptr, &backtest));
  if (backtest.gone()) return absl::CancelledError("nobody waits for this backtest any more");
  const RunResult result = backtest.Finish();

  v1::BacktestRulesResponse response;
  for (const v1::RuleInfo& info : rules->infos()) *response.add_rules() = info;
  response.set_alerts_total(result.alerts.size());
  for (const AlertSpan& span : result.alerts) {
    if (response.alerts_size() == limits.alerts_max) break;
    *response.add_alerts() = span.last;
    response.mutable_alerts()->rbegin()->set_severity(span.severity);
  }
  response.set_steps(result.steps.size());
  FORESHOCK_ASSIGN_OR_RETURN(const uint64_t steps, StepsOf(store, request.run()));
  response.set_steps_total(steps);
  if (!result.steps.empty()) response.set_last_step(result.steps.back());
  response.set_stopped(backtest.stopped());
  if (result.loss_break_step.has_value()) response.set_loss_break_step(*result.loss_break_step);
  for (std::string& note : Notes(result)) *response.add_notes() = std::move(note);
  for (const v1::RuleJudging& judging : result.judging) *response.add_judging() = judging;
  FORESHOCK_ASSIGN_OR_RETURN(const int64_t raw_from,
                             store.RawFrom(request.run(), store::StepRange{}));
  if (raw_from > 0) {
    response.add_notes(absl::StrCat("before step ", raw_from,
                                    " only downsampled values are left, which no rule judges"));
  }
  return response;
}

}  // namespace foreshock::backtest
