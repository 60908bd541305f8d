#include "daemon/backtest/backtest.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule.h"

namespace foreshock::backtest {
namespace {

constexpr size_t kRulesNamedMax = 5;

// The run's own loss: NaN where a rank sent a non-finite one and the run has none at the step.
std::optional<double> LossOf(const model::ClosedStep& step) {
  for (const model::Sample& sample : step.samples) {
    const model::SeriesKey& key = sample.series;
    if (key.indicator == "train.loss" && key.layer == model::kNoLayer &&
        key.unit == model::Unit::kNone) {
      return sample.value;
    }
  }
  const bool nonfinite =
      std::any_of(step.findings.begin(), step.findings.end(), [](const model::Finding& finding) {
        return finding.kind == model::Finding::Kind::kNonFinite && finding.name == "loss";
      });
  if (nonfinite) return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

// Rules whose series came and were never judged. Of series that did not come there are many in
// every run; RunResult has them.
void NoteNotJudged(const RunResult& result, std::vector<std::string>* notes) {
  std::vector<std::string> named;
  size_t waiting = 0;
  for (const v1::RuleJudging& rule : result.judging) {
    if (rule.rows() > 0 || rule.series() == 0) continue;
    if (++waiting <= kRulesNamedMax) {
      named.push_back(absl::StrCat(rule.rule(), " (", rule.why_not(), ")"));
    }
  }
  if (waiting == 0) return;
  notes->push_back(absl::StrCat(
      waiting, waiting == 1 ? " rule has" : " rules have", " judged no row, so its silence says ",
      "nothing: ", absl::StrJoin(named, "; "),
      waiting > named.size() ? absl::StrCat("; and ", waiting - named.size(), " more") : ""));
}

std::string MeasureOf(const rules::RuleSet& rules, const std::string& name) {
  for (const auto& rule : dynamic_cast<const rules::CompiledRules&>(rules).rules) {
    if (rule->name == name) return rules::MeasureText(*rule);
  }
  return "";
}

}  // namespace

std::string SeriesPlace(int32_t layer, model::Unit unit, int64_t unit_id,
                        const std::string& unit_name) {
  std::string place;
  if (layer >= 0) place = absl::StrCat("layer ", layer);
  if (unit == model::Unit::kNone) return place;
  const char* separator = place.empty() ? "" : ", ";
  if (unit == model::Unit::kTensor) return absl::StrCat(place, separator, unit_name);
  return absl::StrCat(place, separator, model::UnitName(unit), " ", unit_id);
}

uint64_t RunResult::StepsBefore(int64_t step) const {
  return std::count_if(steps.begin(), steps.end(), [step](int64_t s) { return s < step; });
}

std::vector<std::string> Notes(const RunResult& result) {
  std::vector<std::string> notes;
  if (!result.has_loss) {
    notes.push_back("it has no train.loss: where the loss broke, and so every lead, is not known");
  }
  NoteNotJudged(result, &notes);
  // Distances between steps of an attempt: the usual one is the rhythm of the run, more is a gap.
  std::map<int64_t, uint64_t> distances;
  for (size_t i = 1; i < result.steps.size(); ++i) {
    if (result.steps[i] > result.steps[i - 1]) ++distances[result.steps[i] - result.steps[i - 1]];
  }
  const auto usual =
      std::max_element(distances.begin(), distances.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  uint64_t gaps = 0;
  size_t longest = 0;
  int64_t length = 0;
  for (size_t i = 1; i < result.steps.size(); ++i) {
    const int64_t distance = result.steps[i] - result.steps[i - 1];
    if (distance <= usual->first) continue;
    ++gaps;
    if (distance > length) longest = i - 1;
    length = std::max(length, distance);
  }
  if (gaps > 0) {
    notes.push_back(absl::StrCat("steps are missing in ", gaps, gaps == 1 ? " place" : " places",
                                 "; the longest gap is from step ", result.steps[longest], " to ",
                                 result.steps[longest] + length));
  }
  return notes;
}

Backtest::Backtest(std::shared_ptr<const rules::RuleSet> rules,
                   std::vector<std::string> trace_rules)
    : EvaluatingSink(std::move(rules)), trace_rules_(std::move(trace_rules)) {}

void Backtest::BeginAttempt(const std::string& run, const v1::ModelShape& model,
                            const rules::AttemptStart& attempt) {
  EvaluatingSink::BeginAttempt(run, model, attempt);
  ++result_.attempts;
}

void Backtest::AfterStep(const model::ClosedStep& step) {
  result_.steps.push_back(step.row.step);
  result_.samples += step.samples.size();
  NoteLoss(step);
  if (!trace_rules_.empty()) NoteTrace(step.row.step);
}

void Backtest::OnAlert(const v1::Alert& alert, uint32_t attempt, int64_t step) {
  const AlertSpan::Moment now{step, order_++};
  const auto [found, began] = open_.try_emplace(alert.id(), result_.alerts.size());
  if (began) {
    result_.alerts.emplace_back();
    result_.alerts.back().first = alert;
    result_.alerts.back().fired = now;
    result_.alerts.back().severity = alert.severity();
  }
  AlertSpan& span = result_.alerts[found->second];
  span.last = alert;
  if (rules::SeverityRank(alert.severity()) >= 1 && !span.warning.has_value()) span.warning = now;
  if (rules::SeverityRank(alert.severity()) >= 2 && !span.critical.has_value()) span.critical = now;
  span.severity = span.critical.has_value()  ? "critical"
                  : span.warning.has_value() ? "warning"
                                             : "info";
}

void Backtest::NoteLoss(const model::ClosedStep& step) {
  const std::optional<double> loss = LossOf(step);
  if (!loss.has_value()) return;
  result_.has_loss = true;
  losses_[step.row.step] = *loss;
  if (!trace_rules_.empty()) trace_.losses.push_back({step.row.step, *loss});
}

void Backtest::NoteTrace(int64_t step) {
  for (const std::string& rule : trace_rules_) {
    for (const rules::JudgedSeries& judged : evaluator().Judged(rule)) {
      const std::string place =
          SeriesPlace(judged.layer, judged.unit, judged.unit_id, judged.unit_name);
      const auto [found, added] =
          curve_of_.try_emplace(absl::StrCat(rule, "\n", place), trace_.curves.size());
      if (added) {
        trace_.curves.push_back(
            {.rule = rule, .measure = MeasureOf(rules(), rule), .series = place, .points = {}});
      }
      trace_.curves[found->second].points.push_back(
          {step, judged.value, judged.baseline, judged.limit});
    }
  }
}

RunResult Backtest::Finish() {
  result_.run = run();
  result_.judging_seconds = judging_seconds();
  if (result_.attempts > 0) {
    result_.judging = evaluator().Judging();
    result_.judged = evaluator().JudgedSoFar();
  }
  std::vector<rules::LossSample> losses;
  losses.reserve(losses_.size());
  for (const auto& [step, loss] : losses_) losses.push_back({step, loss});
  result_.loss_break_step = rules::LossBreakStep(losses);
  // In the order of the rules asked for, then of the series.
  std::stable_sort(trace_.curves.begin(), trace_.curves.end(),
                   [this](const RunTrace::Curve& a, const RunTrace::Curve& b) {
                     const auto place = [this](const std::string& rule) {
                       return std::find(trace_rules_.begin(), trace_rules_.end(), rule);
                     };
                     return std::pair(place(a.rule), a.series) < std::pair(place(b.rule), b.series);
                   });
  return std::move(result_);
}

}  // namespace foreshock::backtest
