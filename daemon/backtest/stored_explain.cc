#include "daemon/backtest/stored_explain.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/backtest/bounded_backtest.h"
#include "daemon/backtest/stored_steps.h"
#include "daemon/base/status_macros.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::backtest {
namespace {

// Takes the explanation behind the last step that is asked about, in each attempt that reaches it:
// the newest one counts.
class ExplainingBacktest final : public BoundedBacktest {
 public:
  ExplainingBacktest(std::shared_ptr<const rules::CompiledRules> rules,
                     const v1::ExplainRequest& request, const BacktestLimits& limits,
                     const std::function<bool()>& cancelled)
      : BoundedBacktest(std::move(rules), limits, cancelled),
        rule_(request.rule()),
        last_step_(request.has_step() ? request.step() : std::numeric_limits<int64_t>::max()) {}

  void BeginAttempt(const std::string& run, const v1::ModelShape& model,
                    const rules::AttemptStart& attempt) override {
    TakePending();
    BoundedBacktest::BeginAttempt(run, model, attempt);
  }
  void OnStep(const model::ClosedStep& step) override {
    first_step_ = std::min(first_step_.value_or(step.row.step), step.row.step);
    if (step.row.step > last_step_) TakePending();
    BoundedBacktest::OnStep(step);
    if (step.row.step <= last_step_) pending_ = step.row.step;
  }

  // After the last step.
  absl::StatusOr<v1::ExplainResponse> Take() {
    TakePending();
    if (!taken_) {
      return absl::OutOfRangeError(
          absl::StrCat("step ", last_step_, ": the run begins at step ", first_step_.value_or(0)));
    }
    response_.set_stopped(stopped());
    return std::move(response_);
  }

 private:
  void TakePending() {
    if (!pending_.has_value()) return;
    response_ = v1::ExplainResponse();
    response_.set_step(*pending_);
    if (rule_.empty()) {
      for (v1::RuleJudging& rule : backtest().Judging()) {
        *response_.add_judging() = std::move(rule);
      }
    } else {
      backtest().Explain(rule_, &response_);
    }
    pending_.reset();
    taken_ = true;
  }

  const std::string rule_;
  const int64_t last_step_;  // asked about
  std::optional<int64_t> first_step_;
  std::optional<int64_t> pending_;  // the newest step at or before it, not taken yet
  bool taken_ = false;
  v1::ExplainResponse response_;
};

absl::Status CheckRule(const rules::RuleSet& rules, const std::string& name) {
  std::vector<std::string> names;
  for (const v1::RuleInfo& info : rules.infos()) {
    if (info.name() == name) return absl::OkStatus();
    names.push_back(info.name());
  }
  const absl::string_view near = yaml::NearestWord(name, names);
  return absl::NotFoundError(absl::StrCat(
      "no rule or signature in force is called ", name,
      near.empty() ? "; /api/v1/rules lists them" : absl::StrCat("; did you mean ", near, "?")));
}

}  // namespace

absl::StatusOr<v1::ExplainResponse> ExplainStoredRun(const store::Store& store,
                                                     std::shared_ptr<const rules::RuleSet> rules,
                                                     const v1::ExplainRequest& request,
                                                     const BacktestLimits& limits,
                                                     const std::function<bool()>& cancelled) {
  if (request.run().empty()) return absl::InvalidArgumentError("run: required");
  const auto compiled = std::dynamic_pointer_cast<const rules::CompiledRules>(std::move(rules));
  if (!request.rule().empty()) {
    FORESHOCK_RETURN_IF_ERROR(CheckRule(*compiled, request.rule()));
  }
  FORESHOCK_RETURN_IF_ERROR(store.Run(request.run()).status());
  FORESHOCK_RETURN_IF_ERROR(CheckSubjects(store, request.run(), *compiled, limits));
  ExplainingBacktest backtest(compiled, request, limits, cancelled);
  FORESHOCK_RETURN_IF_ERROR(ReadStoredSteps(store, request.run(), nullptr, &backtest));
  if (backtest.gone()) return absl::CancelledError("nobody waits for this explanation any more");
  return backtest.Take();
}

}  // namespace foreshock::backtest
