#include "daemon/backtest/rule_test.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/backtest/capture_steps.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/parse.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::backtest {
namespace {

using Expectation = RuleTestExpectation;

// Everything the evaluator returned, and when.
class Recording final : public EvaluatingSink {
 public:
  struct Row {
    uint32_t attempt;
    int64_t step;
    v1::Alert alert;
  };

  using EvaluatingSink::EvaluatingSink;

  const std::vector<Row>& rows() const { return rows_; }
  uint64_t steps() const { return steps_; }

  // The alerts that fire after `step` of the attempt (of the newest that closed it), by name;
  // nullopt if that step never closed.
  std::optional<std::map<std::string, v1::Alert>> FiringAt(int64_t step,
                                                           std::optional<uint32_t> attempt) const {
    if (!attempt.has_value()) {
      const auto newest = attempt_of_.find(step);
      if (newest == attempt_of_.end()) return std::nullopt;
      attempt = newest->second;
    }
    std::map<std::string, v1::Alert> firing;
    for (const Row& row : rows_) {
      if (row.attempt > *attempt || (row.attempt == *attempt && row.step > step)) break;
      if (row.alert.state() == v1::ALERT_STATE_FIRING) {
        firing[row.alert.rule()] = row.alert;
      } else {
        firing.erase(row.alert.rule());
      }
    }
    return firing;
  }

 private:
  void OnAlert(const v1::Alert& alert, uint32_t attempt, int64_t step) override {
    rows_.push_back({attempt, step, alert});
  }
  void AfterStep(const model::ClosedStep& step) override {
    ++steps_;
    attempt_of_[step.row.step] = step.row.attempt;
  }

  uint64_t steps_ = 0;
  std::map<int64_t, uint32_t> attempt_of_;  // newest attempt that closed the step
  std::vector<Row> rows_;
};

std::string LayersOf(const v1::Alert& alert) {
  if (alert.all_layers()) return "all layers";
  if (alert.layers().empty()) return "no layer";
  return absl::StrCat("layers ", absl::StrJoin(alert.layers(), ", "));
}

// What an expectation can compare, of what it does compare.
std::string Wanted(const Expectation& e) {
  std::vector<std::string> parts;
  if (!e.severity.empty()) parts.push_back(absl::StrCat("severity ", e.severity));
  if (e.all_layers) parts.push_back("all layers");
  if (e.layers.has_value()) {
    parts.push_back(e.layers->empty() ? "no layer"
                                      : absl::StrCat("layers ", absl::StrJoin(*e.layers, ", ")));
  }
  if (e.rank.has_value()) parts.push_back(absl::StrCat("rank ", *e.rank));
  if (e.fault.has_value()) parts.push_back(absl::StrCat("fault ", *e.fault));
  return absl::StrJoin(parts, ", ");
}

std::string Shown(const Expectation& e, const v1::Alert& alert) {
  std::vector<std::string> parts;
  if (!e.severity.empty()) parts.push_back(absl::StrCat("severity ", alert.severity()));
  if (e.all_layers || e.layers.has_value()) parts.push_back(LayersOf(alert));
  if (e.rank.has_value()) {
    parts.push_back(alert.has_rank() ? absl::StrCat("rank ", alert.rank()) : "no rank");
  }
  if (e.fault.has_value()) {
    parts.push_back(absl::StrCat("fault ", alert.fault().empty() ? "(none)" : alert.fault()));
  }
  return absl::StrJoin(parts, ", ");
}

bool Fits(const Expectation& e, const v1::Alert& alert) {
  if (!e.severity.empty() && alert.severity() != e.severity) return false;
  if (e.fault.has_value() && alert.fault() != *e.fault) return false;
  if (e.all_layers && !alert.all_layers()) return false;
  if (e.rank.has_value() && (!alert.has_rank() || alert.rank() != *e.rank)) return false;
  if (!e.layers.has_value()) return true;
  std::vector<uint32_t> layers(alert.layers().begin(), alert.layers().end());
  std::sort(layers.begin(), layers.end());
  return layers == *e.layers;
}

std::string With(absl::string_view head, const std::string& details) {
  return details.empty() ? std::string(head) : absl::StrCat(head, ", ", details);
}

std::string RangeOf(const Expectation& e) {
  return e.from == e.to ? absl::StrCat("step ", e.from)
                        : absl::StrCat("a step from ", e.from, " to ", e.to);
}

// "a (warning), b (info)"; "nothing".
std::string NamesOf(const std::map<std::string, v1::Alert>& firing, absl::string_view severity) {
  std::vector<std::string> names;
  for (const auto& [name, alert] : firing) {
    if (rules::SeverityRank(alert.severity()) >= rules::SeverityRank(severity))
      names.push_back(name);
  }
  return names.empty() ? "nothing" : absl::StrJoin(names, ", ");
}

// First row of the alert in that state.
const Recording::Row* FirstRow(const Recording& recording, const std::string& alert,
                               v1::AlertState state) {
  for (const Recording::Row& row : recording.rows()) {
    if (row.alert.rule() == alert && row.alert.state() == state) return &row;
  }
  return nullptr;
}

void Check(const Expectation& e, const Recording& recording, RuleTestResult* result) {
  const auto fail = [&](std::string about, std::string expected, std::string got) {
    result->failures.push_back({e.place, std::move(about), std::move(expected), std::move(got)});
  };
  switch (e.kind) {
    case Expectation::Kind::kFirst:
    case Expectation::Kind::kEnds: {
      const bool ends = e.kind == Expectation::Kind::kEnds;
      const Recording::Row* row =
          FirstRow(recording, e.alert, ends ? v1::ALERT_STATE_RESOLVED : v1::ALERT_STATE_FIRING);
      const std::string verb = ends ? "ends at " : "fires first at ";
      const std::string expected = With(absl::StrCat(verb, RangeOf(e)), Wanted(e));
      if (row == nullptr) {
        fail(e.alert, expected, ends ? "never ends" : "never fires");
      } else if (row->step < e.from || row->step > e.to || !Fits(e, row->alert)) {
        fail(e.alert, expected, With(absl::StrCat(verb, "step ", row->step), Shown(e, row->alert)));
      }
      return;
    }
    case Expectation::Kind::kAt:
    case Expectation::Kind::kOnly: {
      const auto firing = recording.FiringAt(e.from, e.attempt);
      const std::string when = absl::StrCat("step ", e.from);
      if (e.kind == Expectation::Kind::kOnly) {
        std::vector<std::string> names = e.names;
        std::sort(names.begin(), names.end());
        const std::string expected = names.empty() ? "nothing" : absl::StrJoin(names, ", ");
        const std::string got =
            firing.has_value() ? NamesOf(*firing, e.severity) : "that step never closed";
        if (got != expected) {
          fail(absl::StrCat("alerts of ", e.severity, " or above at ", when), expected, got);
        }
        return;
      }
      const std::string about = absl::StrCat(e.alert, " at ", when);
      const std::string expected = e.firing ? With("fires", Wanted(e)) : "does not fire";
      if (!firing.has_value()) return fail(about, expected, "that step never closed");
      const auto alert = firing->find(e.alert);
      const bool fires = alert != firing->end();
      if (!fires && e.firing) fail(about, expected, "does not fire");
      if (fires && !(e.firing && Fits(e, alert->second))) {
        fail(about, expected, With("fires", Shown(e, alert->second)));
      }
      return;
    }
    case Expectation::Kind::kNever:
      for (const std::string& name : e.names) {
        const Recording::Row* row = FirstRow(recording, name, v1::ALERT_STATE_FIRING);
        if (row != nullptr) {
          fail(name, "never fires",
               absl::StrCat("fires first at step ", row->step, ", severity ",
                            row->alert.severity()));
        }
      }
      return;
    case Expectation::Kind::kNeverSeverity:
      for (const Recording::Row& row : recording.rows()) {
        if (row.alert.state() != v1::ALERT_STATE_FIRING ||
            rules::SeverityRank(row.alert.severity()) < rules::SeverityRank(e.severity)) {
          continue;
        }
        fail("any alert", absl::StrCat("none of ", e.severity, " or above"),
             absl::StrCat(row.alert.rule(), " at step ", row.step, ", severity ",
                          row.alert.severity()));
        return;
      }
      return;
  }
}

// "a 330-410 (info), b from 400 (warning)".
std::string Fired(const Recording& recording) {
  struct Span {
    std::string name;
    int64_t from;
    std::optional<int64_t> to;
    std::string severity;
  };
  std::vector<Span> spans;
  std::map<std::string, size_t> open;
  for (const Recording::Row& row : recording.rows()) {
    const auto [found, began] = open.try_emplace(row.alert.id(), spans.size());
    if (began) spans.push_back({row.alert.rule(), row.step, std::nullopt, ""});
    Span& span = spans[found->second];
    if (span.severity.empty() ||
        rules::SeverityRank(row.alert.severity()) > rules::SeverityRank(span.severity)) {
      span.severity = row.alert.severity();
    }
    if (row.alert.state() == v1::ALERT_STATE_RESOLVED) span.to = row.step;
  }
  std::vector<std::string> texts;
  for (const Span& span : spans) {
    texts.push_back(
        span.to.has_value()
            ? absl::StrCat(span.name, " ", span.from, "-", *span.to, " (", span.severity, ")")
            : absl::StrCat(span.name, " from ", span.from, " (", span.severity, ")"));
  }
  return texts.empty() ? "nothing" : absl::StrJoin(texts, ", ");
}

}  // namespace

absl::StatusOr<RuleTestResult> RunRuleTest(std::shared_ptr<const rules::RuleSet> rules,
                                           const RuleTestCase& test) {
  Recording recording(std::move(rules));
  if (!test.capture.empty()) {
    FORESHOCK_RETURN_IF_ERROR(
        base::Annotate(ReadCaptureSteps(test.capture, nullptr, &recording).status(), test.place));
  }
  for (const RuleTestCase::Attempt& attempt : test.attempts) {
    recording.BeginAttempt("test", test.model, attempt.start);
    for (const model::ClosedStep& step : attempt.steps) recording.OnStep(step);
  }
  RuleTestResult result;
  result.name = test.name;
  result.place = test.place;
  result.steps = recording.steps();
  for (const Expectation& expectation : test.expect) Check(expectation, recording, &result);
  if (!result.failures.empty()) result.fired = Fired(recording);
  return result;
}

absl::StatusOr<RuleTestReport> RunRuleTests(const std::string& file) {
  std::string text;
  FORESHOCK_RETURN_IF_ERROR(yaml::ReadYamlFile(file, &text));
  const size_t slash = file.rfind('/');
  FORESHOCK_ASSIGN_OR_RETURN(
      const RuleTestFile parsed,
      ParseRuleTests(file, text, slash == std::string::npos ? "" : file.substr(0, slash + 1)));
  RuleTestReport report;
  report.file = file;
  for (const RuleTestCase& test : parsed.tests) {
    FORESHOCK_ASSIGN_OR_RETURN(RuleTestResult result, RunRuleTest(parsed.rules, test));
    report.tests.push_back(std::move(result));
  }
  return report;
}

}  // namespace foreshock::backtest
