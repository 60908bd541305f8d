#include "daemon/backtest/verdict.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace foreshock::backtest {
namespace {

using ::testing::SizeIs;

// Two rules without a fault, two signatures with one.
std::shared_ptr<const rules::RuleSet> Rules() {
  auto rules =
      rules::ParseRules("test.yaml",
                        "groups:\n"
                        "  - name: g\n"
                        "    rules:\n"
                        "      - {alert: a, indicator: train.loss, threshold: {above: 5}, "
                        "labels: {severity: info}}\n"
                        "      - {alert: b, indicator: train.lr, threshold: {above: 5}, "
                        "labels: {severity: warning}}\n"
                        "signatures:\n"
                        "  - {signature: s, when: a, labels: {severity: warning, fault: f}}\n"
                        "  - {signature: t, when: b, labels: {severity: warning, fault: g}}\n");
  EXPECT_OK(rules);
  return *rules;
}

struct Alarm {
  const char* rule;
  const char* severity;
  int64_t step;
};

// A run of 1 000 steps with these alerts, none of which ends.
RunResult Result(const std::vector<Alarm>& alarms, std::optional<int64_t> loss_break) {
  RunResult result;
  for (int64_t step = 0; step < 1000; ++step) result.steps.push_back(step);
  result.loss_break_step = loss_break;
  uint64_t order = 0;
  for (const Alarm& alarm : alarms) {
    AlertSpan span;
    span.first.set_rule(alarm.rule);
    span.first.set_severity(alarm.severity);
    span.first.set_fault(alarm.rule == std::string("s")   ? "f"
                         : alarm.rule == std::string("t") ? "g"
                                                          : "");
    span.last = span.first;
    span.fired = {alarm.step, order++};
    span.severity = alarm.severity;
    if (span.severity != "info") span.warning = span.fired;
    if (span.severity == "critical") span.critical = span.fired;
    result.alerts.push_back(std::move(span));
  }
  return result;
}

RunLabel Quiet() { return {.expected = RunLabel::Expected::kQuiet}; }
RunLabel Warn(int64_t injection) {
  return {.expected = RunLabel::Expected::kWarn, .fault = "f", .injection_step = injection};
}
RunLabel Harmed(int64_t injection, int64_t harm) {
  return {.expected = RunLabel::Expected::kAlarm, .injection_step = injection, .harm_step = harm};
}
RunLabel Faulty(int64_t injection, std::optional<int64_t> divergence) {
  return {.expected = RunLabel::Expected::kAlarm,
          .fault = "f",
          .injection_step = injection,
          .divergence_step = divergence,
          .divergence_known = true};
}

TEST(Verdict, HoldsOrSaysWhatIsWrong) {
  const struct {
    const char* name;
    RunLabel label;
    std::vector<Alarm> alarms;
    const char* reason;
  } kCases[] = {
      {"quiet, nothing", Quiet(), {}, ""},
      {"quiet, info only", Quiet(), {{"a", "info", 10}}, ""},
      {"quiet, a warning", Quiet(), {{"s", "warning", 10}}, "a quiet run was warned about"},
      {"in time", Faulty(400, 700), {{"s", "warning", 699}}, ""},
      {"info is no warning", Faulty(400, 700), {{"a", "info", 500}}, "no warning"},
      {"at the break is too late",
       Faulty(400, 700),
       {{"s", "warning", 700}},
       "the warning came after the loss break"},
      {"too early", Faulty(400, 700), {{"s", "warning", 399}}, "a warning before the injection"},
      {"no break: any time", Faulty(400, std::nullopt), {{"s", "warning", 999}}, ""},
      {"an abrupt break gives 200 steps", Faulty(400, 450), {{"s", "warning", 600}}, ""},
      {"and not more", Faulty(400, 450), {{"s", "warning", 601}}, "the warning came too late"},
      {"harm comes before the break", Harmed(400, 500), {{"s", "warning", 499}}, ""},
      {"and is what counts",
       Harmed(400, 500),
       {{"s", "warning", 600}},
       "the warning came after the harm"},
      {"warn: however late", Warn(400), {{"s", "warning", 900}}, ""},
      {"warn: never", Warn(400), {}, "no warning"},
      {"warn: too early", Warn(400), {{"s", "warning", 399}}, "a warning before the injection"},
      {"at 51 steps it is not abrupt",
       Faulty(400, 451),
       {{"s", "warning", 451}},
       "the warning came after the loss break"},
  };
  for (const auto& c : kCases) {
    const RunResult result = Result(c.alarms, 650);
    const RunVerdict verdict = JudgeRun(*Rules(), result, &c.label);
    EXPECT_EQ(verdict.reason, c.reason) << c.name;
    EXPECT_EQ(verdict.kind,
              *c.reason == '\0' ? RunVerdict::Kind::kHolds : RunVerdict::Kind::kMissed)
        << c.name;
  }
}

TEST(Verdict, CountsHealthyStepsFalseAlarmsAndLeads) {
  const RunResult result = Result({{"a", "info", 100},
                                   {"b", "warning", 200},
                                   {"a", "info", 450},
                                   {"s", "critical", 460},
                                   {"t", "warning", 470}},
                                  650);
  const RunLabel label = Faulty(400, 700);
  const RunVerdict verdict = JudgeRun(*Rules(), result, &label);
  EXPECT_EQ(verdict.healthy_steps, 400u);
  EXPECT_EQ(verdict.false_alarms, 1u);
  EXPECT_EQ(verdict.false_critical, 0u);
  EXPECT_EQ(verdict.first_warning, 1u);
  EXPECT_EQ(verdict.lead_steps, 500);  // against the label's break
  EXPECT_EQ(verdict.named, false);
  ASSERT_THAT(verdict.outcomes, SizeIs(4));
  const RuleOutcome& a = verdict.outcomes[0];
  EXPECT_EQ(a.alerts, 2u);
  EXPECT_EQ(a.healthy_alerts, 1u);
  EXPECT_EQ(a.first_step, 100);
  EXPECT_EQ(a.fault_step, 450);
  EXPECT_EQ(a.lead_steps, 250);
  EXPECT_EQ(a.named, std::nullopt);
  EXPECT_EQ(verdict.outcomes[2].named, true);   // s names f
  EXPECT_EQ(verdict.outcomes[3].named, false);  // t names g
  EXPECT_TRUE(verdict.outcomes[2].signature);
}

TEST(Verdict, ComparesLayersAndMeasuresTheLeadToTheHarm) {
  const struct {
    std::vector<uint32_t> named;
    bool all_layers;
    std::vector<uint32_t> wanted;
    std::optional<bool> right;
  } kCases[] = {
      {{3}, false, {3}, true}, {{5, 3}, false, {3, 5}, true}, {{3, 4}, false, {3}, false},
      {{}, false, {3}, false}, {{3}, true, {3}, false},       {{3}, false, {}, std::nullopt},
  };
  uint64_t right = 0;
  std::vector<RunResult> results;
  std::vector<RunVerdict> verdicts;
  for (const auto& c : kCases) {
    results.push_back(Result({{"s", "warning", 450}}, 650));
    v1::Alert& alert = results.back().alerts[0].last;
    for (const uint32_t layer : c.named) alert.add_layers(layer);
    alert.set_all_layers(c.all_layers);
    RunLabel label = Harmed(400, 480);
    label.layers = c.wanted;
    verdicts.push_back(JudgeRun(*Rules(), results.back(), &label));
    EXPECT_EQ(verdicts.back().layers_right, c.right);
    EXPECT_EQ(verdicts.back().lead_steps, 30);
    EXPECT_EQ(verdicts.back().loss_break_step, 650);
    EXPECT_EQ(verdicts.back().outcomes[0].lead_steps, 30);
    right += c.right.value_or(false);
  }
  std::vector<JudgedRun> runs;
  for (size_t i = 0; i < results.size(); ++i) runs.push_back({&results[i], &verdicts[i]});
  const SplitSummary split = SummariseRuns(*Rules(), runs).at(0);
  EXPECT_EQ(split.layered, 5u);
  EXPECT_EQ(split.layers_right, right);
}

TEST(Verdict, WithoutALabelOnlySaysWhatHappened) {
  const RunResult result = Result({{"s", "warning", 600}}, 650);
  const RunVerdict verdict = JudgeRun(*Rules(), result, nullptr);
  EXPECT_EQ(verdict.kind, RunVerdict::Kind::kNone);
  EXPECT_FALSE(verdict.healthy_known);
  EXPECT_EQ(verdict.lead_steps, 50);  // against the computed break
  EXPECT_EQ(verdict.named, std::nullopt);
  EXPECT_EQ(verdict.outcomes[0].lead_steps, 50);
}

TEST(Verdict, OfTwoWarningsOfOneStepTheOneWithANameIsFirst) {
  const RunResult result = Result({{"b", "warning", 600}, {"s", "warning", 600}}, std::nullopt);
  EXPECT_EQ(JudgeRun(*Rules(), result, nullptr).first_warning, 1u);
}

TEST(Verdict, SumsSplitsApart) {
  const RunResult quiet = Result({}, std::nullopt);
  const RunResult noisy = Result({{"b", "critical", 5}, {"b", "warning", 900}}, std::nullopt);
  const RunResult early = Result({{"s", "warning", 500}}, std::nullopt);
  const RunResult late = Result({{"s", "warning", 690}, {"a", "info", 10}}, std::nullopt);
  RunLabel tune = Quiet();
  tune.split = "tune";
  RunLabel check = Quiet();
  check.split = "check";
  RunLabel fault = Faulty(400, 700);
  fault.split = "tune";
  const RunVerdict verdicts[] = {
      JudgeRun(*Rules(), quiet, &tune), JudgeRun(*Rules(), noisy, &check),
      JudgeRun(*Rules(), early, &fault), JudgeRun(*Rules(), late, &fault)};
  const std::vector<SplitSummary> splits = SummariseRuns(*Rules(), {{&quiet, &verdicts[0]},
                                                                    {&noisy, &verdicts[1]},
                                                                    {&early, &verdicts[2]},
                                                                    {&late, &verdicts[3]}});
  ASSERT_THAT(splits, SizeIs(2));
  EXPECT_EQ(splits[0].split, "tune");
  EXPECT_EQ(splits[0].runs, 3u);
  EXPECT_EQ(splits[0].faulty, 2u);
  EXPECT_EQ(splits[0].in_time, 2u);
  EXPECT_EQ(splits[0].named, 2u);
  EXPECT_EQ(splits[0].silent, 1u);
  EXPECT_EQ(splits[0].healthy_steps, 1800u);
  EXPECT_EQ(splits[0].false_alarms, 0u);
  EXPECT_EQ(splits[0].median_lead_steps, 10);  // of 10 and 200 the smaller
  ASSERT_THAT(splits[0].rules, SizeIs(2));
  EXPECT_EQ(splits[0].rules[0].rule, "a");  // rules before signatures
  EXPECT_EQ(splits[0].rules[0].healthy_alerts, 1u);
  EXPECT_EQ(splits[0].rules[0].faults_seen, 0u);
  EXPECT_EQ(splits[0].rules[1].faults_seen, 2u);
  EXPECT_EQ(splits[1].split, "check");
  EXPECT_EQ(splits[1].missed, 1u);
  EXPECT_EQ(splits[1].false_alarms, 2u);
  EXPECT_EQ(splits[1].false_critical, 1u);
}

TEST(Verdict, RatesAndTheirUpperLimit) {
  EXPECT_DOUBLE_EQ(PerTenThousand(3, 12000), 2.5);
  EXPECT_EQ(PerTenThousand(0, 0), 0);
  // -ln 0.05 events where none was seen; the table of the Poisson distribution for the others.
  EXPECT_NEAR(PerTenThousandUpper(0, 10000), 2.9957, 1e-4);
  EXPECT_NEAR(PerTenThousandUpper(1, 10000), 4.7439, 1e-4);
  EXPECT_NEAR(PerTenThousandUpper(10, 10000), 16.9622, 1e-4);
  // Both sides of where the sum gives way to the approximation.
  EXPECT_NEAR(PerTenThousandUpper(301, 10000) / PerTenThousandUpper(300, 10000), 302.0 / 301.0,
              1e-3);
}

}  // namespace
}  // namespace foreshock::backtest
