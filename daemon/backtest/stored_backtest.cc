#include "daemon/backtest/stored_backtest.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/backtest/backtest.h"
#include "daemon/backtest/stored_steps.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/rule.h"

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

// A backtest that ends when its limits are reached.
class BoundedBacktest final : public StepSink {
 public:
  BoundedBacktest(std::shared_ptr<const rules::CompiledRules> rules, const BacktestLimits& limits,
                  const std::function<bool()>& cancelled)
      : limits_(limits),
        cancelled_(cancelled),
        uses_(UsesOf(*rules)),
        // What was announced and did not come is judged by everything that did.
        judges_all_(std::any_of(rules->rules.begin(), rules->rules.end(),
                                [](const auto& rule) {
                                  return std::holds_alternative<rules::CoverageSpec>(
                                      rule->detector);
                                })),
        deadline_(base::SteadyNow() + limits.time_max),
        backtest_(std::move(rules)) {}

  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override {
    backtest_.BeginAttempt(run, model, attempt);
  }
  void DeclarePlan(uint32_t rank, uint32_t world_size,
                   absl::Span<const v1::PlanEntry> plan) override {
    backtest_.DeclarePlan(rank, world_size, plan);
  }
  void RankGone(uint32_t rank) override { backtest_.RankGone(rank); }
  void SetSilentRanks(std::vector<uint32_t> ranks) override {
    backtest_.SetSilentRanks(std::move(ranks));
  }
  void Tick(int64_t now_unix_ns) override { backtest_.Tick(now_unix_ns); }

  void OnStep(const model::ClosedStep& step) override {
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

  bool done() const override { return gone_ || !stopped_.empty(); }
  bool Wants(const model::SeriesKey& series) const override {
    return judges_all_ || series.indicator == "train.loss" || backtest_.Uses(series);
  }

  bool gone() const { return gone_; }
  const std::string& stopped() const { return stopped_; }
  RunResult Finish() { return backtest_.Finish(); }

 private:
  const BacktestLimits& limits_;
  const std::function<bool()>& cancelled_;
  const Uses uses_;
  const bool judges_all_;
  const absl::Time deadline_;
  Backtest backtest_;
  uint64_t judged_ = 0;
  std::string stopped_;  // why it ended before the run did
  bool gone_ = false;    // nobody waits for it any more
};

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
  FORESHOCK_ASSIGN_OR_RETURN(const int64_t raw_from,
                             store.RawFrom(request.run(), store::StepRange{}));
  if (raw_from > 0) {
    response.add_notes(absl::StrCat("before step ", raw_from,
                                    " only downsampled values are left, which no rule judges"));
  }
  return response;
}

}  // namespace foreshock::backtest
