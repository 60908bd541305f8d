// Limits from healthy history: what they are made from, and that fresh healthy runs keep the
// budget.
#include "daemon/backtest/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::backtest {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

std::shared_ptr<const rules::CompiledRules> Compile(const std::string& text) {
  const auto rules = rules::ParseRules("test.yaml", text);
  EXPECT_TRUE(rules.ok()) << rules.status();
  return std::dynamic_pointer_cast<const rules::CompiledRules>(*rules);
}

// --- budgets

TEST(BudgetTest, SaysHowManyOfWhatPerWhat) {
  const auto page = ParseBudget("1 page per 30 days");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->severity, "critical");
  EXPECT_EQ(page->alerts, 1);
  EXPECT_EQ(page->seconds, 30 * 86400);
  EXPECT_EQ(page->steps, 0);
  const auto steps = ParseBudget("1 per 1e6 steps");
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(steps->severity, "critical");
  EXPECT_EQ(steps->steps, 1e6);
  const auto week = ParseBudget("0.5 warnings per week");
  ASSERT_TRUE(week.ok()) << week.status();
  EXPECT_EQ(week->severity, "warning");
  EXPECT_EQ(week->alerts, 0.5);
  EXPECT_EQ(week->seconds, 7 * 86400);
}

TEST(BudgetTest, WhatIsWrongIsNamed) {
  const struct {
    const char* text;
    const char* says;
  } kCases[] = {{"", "a positive number"},
                {"page per day", "a positive number"},
                {"0 pages per day", "a positive number"},
                {"1 page", "`per` is missing"},
                {"1 pager per day", "`pager` is none of"},
                {"1 page per", "a number and a unit"},
                {"1 page per 3 moons", "`moons` is none of"},
                {"1 page per 3 days please", "a number and a unit"}};
  for (const auto& c : kCases) {
    EXPECT_THAT(std::string(ParseBudget(c.text).status().message()),
                AllOf(HasSubstr(c.says), HasSubstr("1 page per 30 days")))
        << c.text;
  }
}

// --- the statistic

rules::Rule MachineRule(rules::MachineParams machine, double clear = 1) {
  rules::Rule rule;
  rule.machine = machine;
  // Any limit; only the share that `clear` is of it matters.
  rules::RobustZSpec detector;
  detector.limits.limit = 2;
  detector.limits.clear = clear;
  rule.detector = detector;
  return rule;
}

TEST(StatisticTest, IsTheHighestLimitThatFires) {
  const rules::Rule rule = MachineRule({.hits = 2, .of = 3}, /*clear=*/2);
  SeriesStatistic statistic;
  std::vector<double> seen;
  for (const double x : {5.0, 3.0, 4.0, 1.0, 1.0}) seen.push_back(statistic.Push(rule, 0, x));
  EXPECT_TRUE(std::isinf(seen[0])) << "one sample is not two hits";
  seen.erase(seen.begin());
  EXPECT_THAT(seen, ElementsAre(3, 4, 3, 1));
}

TEST(StatisticTest, FiresOnUntilItHasCleared) {
  const rules::Rule rule = MachineRule({.clear_samples = 2});
  SeriesStatistic statistic;
  std::vector<double> seen;
  // A limit fires on until two samples in a row are at most half of it.
  for (const double x : {8.0, 3.0, 5.0, 3.0, 3.0, 1.0, 1.0}) {
    seen.push_back(statistic.Push(rule, 0, x));
  }
  EXPECT_THAT(seen, ElementsAre(8, 8, 8, 8, 6, 6, 2));
}

// Against the state machine itself, for random series and every limit, up to its first end: then
// the machine forgets its hits, which a statistic of all limits at once cannot. With `for` it may
// begin to fire at a healthy sample, which the machine does not yet count as clear: only the
// beginning is equal.
TEST(StatisticTest, AgreesWithTheStateMachine) {
  std::mt19937_64 random(5);
  size_t resolved = 0;
  for (int round = 0; round < 400; ++round) {
    rules::MachineParams machine;
    machine.of = 1 + static_cast<int>(random() % 6);
    machine.hits = 1 + static_cast<int>(random() % static_cast<uint64_t>(machine.of));
    machine.clear_samples = 1 + static_cast<int>(random() % 3);
    machine.pending_for = {.count = static_cast<int64_t>(random() % 8),
                           .in_samples = random() % 2 == 0};
    const rules::Rule rule = MachineRule(machine);
    std::vector<double> values;
    std::vector<int64_t> steps;
    int64_t step = 0;
    for (int i = 0; i < 40; ++i) {
      step += 1 + static_cast<int64_t>(random() % 3);
      steps.push_back(step);
      values.push_back(static_cast<double>(random() % 100));
    }
    for (const double limit : {20.0, 50.0, 70.0, 85.0}) {
      rules::MachineState state;
      SeriesStatistic statistic;
      for (int i = 0; i < 40; ++i) {
        const double value = values[static_cast<size_t>(i)];
        const int64_t at = steps[static_cast<size_t>(i)];
        const rules::Transition transition = rules::Advance(
            machine, at, {.breach = value > limit, .clear = value <= 0.5 * limit}, &state);
        const bool over = statistic.Push(rule, at, value) > limit;
        if (transition == rules::Transition::kResolved) {
          ++resolved;
          break;
        }
        ASSERT_EQ(state.phase == rules::Phase::kFiring, over)
            << machine.hits << " of " << machine.of << " for " << machine.pending_for.count
            << (machine.pending_for.in_samples ? " samples" : " steps") << ", limit " << limit
            << ", sample " << i;
        if (over && machine.pending_for.count > 0) break;
      }
    }
  }
  EXPECT_GT(resolved, 50u);
}

// --- healthy runs

// Four rules that page, of the kinds a pack has: z of one series, drop in layers with a quorum, a
// fixed limit on a heavy tail, and smoothed values that must stay high. All limits far too
// sensitive.
constexpr char kPages[] = R"(groups:
  - name: g
    defaults: {warm_up: judge, labels: {severity: critical}}
    rules:
      - alert: z
        indicator: train.a
        robust_z: {above: 2, clear: 1}
        baseline: {kind: trailing, samples: 60, lag: 5, min_samples: 20}
      - alert: layers
        indicator: load.entropy_ratio
        relative_drop: {below: 0.98, clear: 0.99}
        baseline: {kind: trailing, samples: 60, lag: 5, min_samples: 20}
        hits: 2 of 3
        clear_samples: 3
        quorum: {layers: 2}
      - alert: heavy
        indicator: train.b
        threshold: {above: 2, clear: 1}
      - alert: lasting
        indicator: train.c
        smooth: {median: 5}
        relative_rise: {above: 1.02, clear: 1.01}
        baseline: {kind: trailing, samples: 60, lag: 10, min_samples: 20}
        hits: 5 of 5
        clear_samples: 5
)";

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  model::ClosedStep Step(int64_t step) {
    slow_ = 0.9 * slow_ + std::sqrt(1 - 0.81) * normal_(random_);
    std::vector<model::Sample> samples;
    samples.push_back(rules::MakeSample("train.a", 3 + normal_(random_)));
    samples.push_back(rules::MakeSample("train.b", student_(random_)));
    samples.push_back(rules::MakeSample("train.c", 1 + 0.02 * slow_));
    for (int32_t layer = 0; layer < 4; ++layer) {
      samples.push_back(
          rules::MakeSample("load.entropy_ratio", 0.9 + 0.02 * normal_(random_), layer));
    }
    return rules::MakeStep(step, std::move(samples));
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::student_t_distribution<double> student_{5};
  double slow_ = 0;
};

std::unique_ptr<HealthyHistory> Watch(std::shared_ptr<const rules::CompiledRules> rules,
                                      uint64_t seed, int64_t steps, int runs = 1) {
  auto healthy = std::make_unique<HealthyHistory>(std::move(rules));
  Generator generator(seed);
  for (int run = 0; run < runs; ++run) {
    healthy->BeginAttempt("good", v1::ModelShape(), {.number = 1, .resume_step = std::nullopt});
    for (int64_t step = 0; step < steps; ++step) healthy->OnStep(generator.Step(step));
    healthy->EndRun();
  }
  return healthy;
}

TEST(HealthyHistoryTest, CountsWhatRulesOnTheRunItselfWouldHaveSaid) {
  HealthyHistory healthy(Compile(R"(
groups:
  - name: g
    rules:
      - {alert: missing, coverage: {missing_intervals: 3}, labels: {severity: warning}}
      - {alert: hang, hang: {intervals: 3, at_least: 1m}, labels: {severity: warning}}
      - {alert: storm, restarts: {above: 5, in: 100 steps}, labels: {severity: warning}}
)"));
  healthy.BeginAttempt("good", v1::ModelShape(), {.number = 1, .resume_step = std::nullopt});
  v1::PlanEntry loads;
  loads.set_kind(v1::SUMMARY_KIND_ROUTER_LOAD);
  loads.add_layers(0);
  loads.set_every_steps(1);
  healthy.DeclarePlan(0, 1, {loads});
  constexpr int64_t kSecond = 1'000'000'000;
  healthy.Tick(kSecond);
  for (int64_t step = 0; step < 5; ++step) {
    healthy.OnStep(rules::MakeStep(step, {rules::MakeSample("train.loss", 2)}));
  }
  healthy.Tick(1000 * kSecond);
  healthy.Tick(2000 * kSecond);
  EXPECT_EQ(healthy.begun(0), 1u);
  EXPECT_EQ(healthy.begun(1), 1u);
  EXPECT_EQ(healthy.begun(2), 0u);
}

// Alerts of each rule that begin in a fresh run.
std::vector<size_t> Count(std::shared_ptr<const rules::CompiledRules> rules, uint64_t seed,
                          int64_t steps) {
  rules::Evaluator evaluator(rules, "fresh", v1::ModelShape());
  evaluator.BeginAttempt({.number = 1, .resume_step = std::nullopt});
  Generator generator(seed);
  std::vector<size_t> counts(rules->rules.size(), 0);
  for (int64_t step = 0; step < steps; ++step) {
    for (const model::AlertRow& row : evaluator.Evaluate(generator.Step(step))) {
      const v1::Alert& alert = row.alert();
      if (alert.state() != v1::ALERT_STATE_FIRING || alert.firing_step() != step) continue;
      for (size_t i = 0; i < rules->rules.size(); ++i) {
        if (rules->rules[i]->name == alert.rule()) ++counts[i];
      }
    }
  }
  return counts;
}

// 20 000 healthy steps, a budget of 40 pages in 100 000 steps, so 10 for each of the four rules:
// the history shows twice as many at best, the rest is extrapolation. The bounds are of 95 %, so
// the mean in a fresh run is under 10 a rule; more than 21 would be seen once in 1 500 times at a
// mean of 10.
TEST(CalibrateTest, FreshHealthyRunsKeepTheBudget) {
  const auto rules = Compile(kPages);
  const auto healthy = Watch(rules, /*seed=*/11, 20'000);
  const Calibration found = Calibrate(*healthy, {.alerts_per_step = 40e-5, .severity = "critical"});
  EXPECT_EQ(found.guards, 4u);
  const auto calibrated = WithLimits(*rules, found);
  const std::vector<size_t> before = Count(rules, /*seed=*/12, 100'000);
  const std::vector<size_t> after = Count(calibrated, /*seed=*/12, 100'000);
  size_t all = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    SCOPED_TRACE(absl::StrCat(found.rules[i].rule, ": ", found.rules[i].reason));
    EXPECT_GT(before[i], 100u) << "without calibration the budget is far away";
    EXPECT_LE(after[i], 21u);
    ASSERT_TRUE(found.rules[i].rate.has_value());
    EXPECT_LE(*found.rules[i].rate, *found.rules[i].rate_bound);
    EXPECT_LE(*found.rules[i].rate_bound, 1.02 * 100) << "its share, per 1e6 steps";
    all += after[i];
  }
  EXPECT_GE(all, 2u) << "limits that never fire would be no calibration";
}

// The curve must be that of the rule: at a limit within the noise, the alerts that it predicts are
// those that the daemon's evaluator raises on the same steps. Not exactly: a live baseline is
// frozen from the first breach, and here 1 sample in 50 is one. With another statistic than the
// rule's own (hits, quorum, clear) the two would be several times apart.
TEST(CalibrateTest, PredictsWhatTheEvaluatorCounts) {
  const auto rules = Compile(kPages);
  const auto healthy = Watch(rules, /*seed=*/21, 50'000);
  Calibration moderate = Calibrate(*healthy, {.alerts_per_step = 4 * 2e-3});
  const std::vector<size_t> counted = Count(WithLimits(*rules, moderate), /*seed=*/21, 50'000);
  for (size_t i = 0; i < counted.size(); ++i) {
    SCOPED_TRACE(moderate.rules[i].rule);
    const double predicted = *moderate.rules[i].rate * 0.05;  // per 1e6 steps, of 50 000
    EXPECT_GT(predicted, 20);
    EXPECT_NEAR(static_cast<double>(counted[i]), predicted, 0.5 * predicted);
  }
}

TEST(CalibrateTest, IsNeverSharperUnlessAllowed) {
  std::string text = kPages;
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"above: 2, clear: 1}\n        baseline", "above: 50, clear: 20}\n        baseline"},
           {"below: 0.98, clear: 0.99", "below: 0.3, clear: 0.6"}}) {
    text.replace(text.find(from), from.size(), to);
  }
  const auto rules = Compile(text);
  const auto healthy = Watch(rules, /*seed=*/31, 10'000);
  const Calibration kept = Calibrate(*healthy, {.alerts_per_step = 1e-3});
  EXPECT_EQ(kept.rules[0].limit, 50);
  EXPECT_EQ(kept.rules[0].clear, 20);
  EXPECT_EQ(kept.rules[1].limit, 0.3);
  EXPECT_THAT(kept.rules[0].reason, HasSubstr("more sensitive"));
  EXPECT_GT(kept.rules[2].limit, 2) << "this one was too sensitive";
  const Calibration sharper = Calibrate(*healthy, {.alerts_per_step = 1e-3, .allow_sharper = true});
  EXPECT_THAT(sharper.rules[0].limit, AllOf(Gt(2), Le(10)));
  EXPECT_LT(sharper.rules[0].clear, sharper.rules[0].limit);
  EXPECT_GT(sharper.rules[1].limit, 0.8);
  EXPECT_GT(sharper.rules[1].clear, sharper.rules[1].limit);
}

TEST(CalibrateTest, TooLittleHistoryIsSaidAndChangesNothing) {
  const auto rules = Compile(kPages);
  const auto healthy = Watch(rules, /*seed=*/41, 40);
  const Calibration found = Calibrate(*healthy, {.alerts_per_step = 1e-6});
  EXPECT_NEAR(found.rate_shown, 3.0 / 40, 1e-12);
  for (const RuleCalibration& rule : found.rules) {
    if (rule.excursions >= 10) continue;
    EXPECT_FALSE(rule.changed());
    EXPECT_THAT(rule.reason, HasSubstr("at least 10 are needed"));
  }
  EXPECT_FALSE(found.rules[0].rate.has_value());
  const auto more = Watch(rules, /*seed=*/41, 2'000);
  const Calibration far = Calibrate(*more, {.alerts_per_step = 1e-9});
  EXPECT_THAT(far.rules[0].reason, HasSubstr("use more history"));
}

TEST(CalibrateTest, SeveralRunsCountTogether) {
  const auto rules = Compile(kPages);
  const auto one = Watch(rules, /*seed=*/51, 4'000);
  const auto four = Watch(rules, /*seed=*/51, 1'000, /*runs=*/4);
  EXPECT_EQ(one->steps(), four->steps());
  EXPECT_EQ(four->of(0).size(), 4u);
  // Each run begins without a baseline.
  EXPECT_LT(four->samples(0), one->samples(0));
  EXPECT_GT(four->samples(0), one->samples(0) * 9 / 10);
}

TEST(CalibrateTest, OnlyOneRuleOfAConjunctionKeepsTheBudget) {
  std::string text = kPages;
  const std::string critical = "severity: critical";
  text.replace(text.find(critical), critical.size(), "severity: info");
  text +=
      "signatures:\n"
      "  - signature: s\n"
      "    when: {all: [z, heavy]}\n"
      "    labels: {severity: critical, fault: x}\n";
  const auto rules = Compile(text);
  const auto healthy = Watch(rules, /*seed=*/61, 5'000);
  const Calibration found = Calibrate(*healthy, {.alerts_per_step = 1e-4});
  EXPECT_EQ(found.guards, 1u);
  const bool z = found.rules[0].role == RuleCalibration::Role::kGuard;
  const bool heavy = found.rules[2].role == RuleCalibration::Role::kGuard;
  EXPECT_NE(z, heavy);
  EXPECT_EQ(found.rules[1].role, RuleCalibration::Role::kEvidence);
  EXPECT_FALSE(found.rules[1].changed());
  EXPECT_FALSE(found.rules[3].changed());
}

TEST(CalibrateTest, AWayPastEveryLimitIsNamed) {
  const auto rules = Compile(
      "groups:\n"
      "  - name: g\n"
      "    rules:\n"
      "      - {alert: nan, non_finite: {names: [loss]}, labels: {severity: critical}}\n");
  const auto healthy = Watch(rules, /*seed=*/71, 100);
  const Calibration found = Calibrate(*healthy, {.alerts_per_step = 1e-4});
  EXPECT_EQ(found.guards, 0u);
  EXPECT_THAT(found.routes_unguarded, ElementsAre("nan"));
  EXPECT_EQ(found.rules[0].role, RuleCalibration::Role::kNoLimit);
  EXPECT_EQ(found.rules[0].excursions, 0u);
  EXPECT_NEAR(*found.rules[0].rate_bound, 1e6 * 2.9957 / 100, 1);
}

TEST(CalibrateTest, WhatIsFarRarerThanTheHistoryShowsIsNotExtrapolated) {
  const auto rules = Compile(kPages);
  const auto healthy = Watch(rules, /*seed=*/81, 5'000);
  const Calibration found = Calibrate(*healthy, {.alerts_per_step = 1e-9});
  EXPECT_GT(found.guards, 0u);
  for (const RuleCalibration& rule : found.rules) {
    EXPECT_FALSE(rule.changed()) << rule.rule;
    EXPECT_THAT(rule.reason, AllOf(HasSubstr("left as it is"), HasSubstr("use more history")));
  }
}

// --- the file

TEST(CalibratedTextTest, ChangesTheLimitsAndNothingElse) {
  const auto rules = Compile(kPages);
  const auto healthy = Watch(rules, /*seed=*/81, 5'000);
  const Calibration found = Calibrate(*healthy, {.alerts_per_step = 1.2e-3});
  const auto text = CalibratedText("pages.yaml", kPages, found);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("        # calibrated: limit 2 -> "));
  EXPECT_THAT(*text, HasSubstr("with 95 % confidence"));
  // Read back, the limits are those found; without comments and limits, the text is as before.
  const auto again = Compile(*text);
  for (size_t i = 0; i < found.rules.size(); ++i) {
    const rules::Limits& limits = *rules::MovableLimits(again->rules[i]->detector);
    EXPECT_EQ(limits.limit, found.rules[i].limit) << found.rules[i].rule;
    EXPECT_EQ(limits.clear, found.rules[i].clear) << found.rules[i].rule;
    EXPECT_TRUE(found.rules[i].changed());
  }
  std::string stripped;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::StrContains(line, "# calibrated")) absl::StrAppend(&stripped, line, "\n");
  }
  EXPECT_EQ(std::count(stripped.begin(), stripped.end(), '\n'),
            std::count(std::begin(kPages), std::end(kPages), '\n') + 1);
  EXPECT_THAT(stripped, HasSubstr("baseline: {kind: trailing, samples: 60, lag: 10"));
}

TEST(CalibratedTextTest, BlockStyleAndLongKeysWork) {
  const std::string text =
      "groups:\n"
      "  - name: g\n"
      "    rules:\n"
      "      - alert: x   # mine\n"
      "        indicator: train.a\n"
      "        threshold:\n"
      "          above: 2.50  # too low\n"
      "        labels: {severity: critical}\n";
  Calibration calibration;
  RuleCalibration x;
  x.rule = "x";
  x.limit_before = 2.5;
  x.clear_before = 2.5;
  x.limit = 4.125;
  x.clear = 4.125;
  x.reason = "because";
  calibration.rules.push_back(x);
  const auto changed = CalibratedText("x.yaml", text, calibration);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(*changed, HasSubstr("        threshold:\n"
                                  "          # calibrated: limit 2.5 -> 4.125; because\n"
                                  "          above: 4.125  # too low\n"));
  calibration.rules[0].limit_before = 7;
  EXPECT_THAT(std::string(CalibratedText("x.yaml", text, calibration).status().message()),
              HasSubstr("x.yaml: the limit of x"));
  calibration.rules[0].rule = "other";
  EXPECT_EQ(*CalibratedText("x.yaml", text, calibration), text) << "rules of other files";
}

}  // namespace
}  // namespace foreshock::backtest
