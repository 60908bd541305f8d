#include "daemon/backtest/recorded_run.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/backtest/capture_steps.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/rule.h"

namespace foreshock::backtest {
namespace {

class RecordingSink final : public EvaluatingSink {
 public:
  RecordingSink(std::shared_ptr<const rules::RuleSet> rules, std::vector<std::string> indicators)
      : EvaluatingSink(std::move(rules)), recorder_(std::move(indicators)) {}

  absl::StatusOr<RecordedRun> Finish() {
    FORESHOCK_RETURN_IF_ERROR(status_);
    RecordedRun recorded = recorder_.Finish();
    recorded.alerts = std::move(alerts_);
    return recorded;
  }

 private:
  void OnAlert(const v1::Alert& alert, uint32_t attempt, int64_t step) override {
    const auto [found, began] = place_.try_emplace(alert.id(), alerts_.size());
    if (began) alerts_.emplace_back();
    alerts_[found->second] = alert;
  }

  void AfterStep(const model::ClosedStep& step) override {
    if (!status_.ok()) return;
    if (step.row.tokens > 0) recorder_.run().tokens[step.row.step] = step.row.tokens;
    for (const model::Sample& sample : step.samples) {
      status_ = recorder_.Add(sample.series, step.row.step, sample.value, sample.flags);
      if (!status_.ok()) return;
    }
  }

  RunRecorder recorder_;
  std::vector<v1::Alert> alerts_;
  absl::flat_hash_map<std::string, size_t> place_;  // by id
  absl::Status status_;
};

}  // namespace

bool RunRecorder::Wants(const std::string& indicator) const {
  return indicators_.empty() ||
         std::any_of(indicators_.begin(), indicators_.end(), [&](absl::string_view wanted) {
           return absl::ConsumeSuffix(&wanted, "*") ? absl::StartsWith(indicator, wanted)
                                                    : indicator == wanted;
         });
}

absl::Status RunRecorder::Add(const model::SeriesKey& key, int64_t step, double value,
                              uint32_t flags) {
  if ((flags & model::kFlagsNotJudged) != 0 || !Wants(key.indicator)) return absl::OkStatus();
  if (++points_ > kRecordedPointsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the run has more than ", kRecordedPointsMax,
                     " points; name the indicators to look at (--indicators)"));
  }
  run_.series[key].push_back({step, value});
  return absl::OkStatus();
}

RecordedRun RunRecorder::Finish() {
  for (auto& [key, curve] : run_.series) {
    // A resumed attempt came later: of one step its value stands last.
    std::stable_sort(
        curve.begin(), curve.end(),
        [](const rules::TrendPoint& a, const rules::TrendPoint& b) { return a.step < b.step; });
    Curve kept;
    for (const rules::TrendPoint& point : curve) {
      if (!kept.empty() && kept.back().step == point.step) kept.pop_back();
      kept.push_back(point);
    }
    curve = std::move(kept);
  }
  return std::move(run_);
}

absl::StatusOr<RecordedRun> ReadCaptureRun(const std::string& path,
                                           std::shared_ptr<const rules::RuleSet> rules,
                                           std::vector<std::string> indicators,
                                           const StepProgress& progress) {
  if (rules == nullptr) rules = std::make_shared<rules::CompiledRules>();
  RecordingSink sink(std::move(rules), std::move(indicators));
  FORESHOCK_RETURN_IF_ERROR(ReadCaptureSteps(path, progress, &sink).status());
  FORESHOCK_ASSIGN_OR_RETURN(RecordedRun run, sink.Finish());
  run.name = path;
  return run;
}

}  // namespace foreshock::backtest
