#include "daemon/backtest/rule_test.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::backtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kRules[] =
    "groups:\n"
    "  - name: g\n"
    "    defaults: {warm_up: judge, labels: {severity: warning}}\n"
    "    rules:\n"
    "      - alert: entropy_low\n"
    "        indicator: router.token_entropy_ratio\n"
    "        threshold: {below: 0.5, clear: 0.6}\n"
    "      - alert: loss_nonfinite\n"
    "        non_finite: {names: [loss], scope: rank}\n"
    "        clear_samples: 3\n"
    "        labels: {severity: critical, fault: nonfinite_rank}\n"
    "      - alert: loss_high\n"
    "        indicator: train.loss\n"
    "        scope: run\n"
    "        threshold: {above: 5}\n"
    "        labels: {severity: info}\n"
    "      - alert: loss_silent\n"
    "        indicator: train.loss\n"
    "        scope: run\n"
    "        no_data: {intervals: 3}\n"
    "        labels: {severity: info}\n";

class RuleTestFiles : public ::testing::Test {
 protected:
  RuleTestFiles() { Write("rules.yaml", kRules); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.File(name)) << text;
  }

  // Runs the file and shows each failure as "about | expected | got"; an error as it is.
  std::vector<std::string> Run(const std::string& tests) {
    Write("test.yaml", absl::StrCat("rule_files: [rules.yaml]\ntests:\n", tests));
    const auto report = RunRuleTests(directory_.File("test.yaml"));
    if (!report.ok()) return {std::string(report.status().message())};
    std::vector<std::string> failures;
    for (const RuleTestResult& test : report->tests) {
      for (const RuleTestFailure& failure : test.failures) {
        failures.push_back(
            absl::StrCat(failure.about, " | ", failure.expected, " | ", failure.got));
      }
    }
    return failures;
  }

  support::TempDir directory_;
};

TEST_F(RuleTestFiles, EveryExpectationThatHoldsPasses) {
  EXPECT_THAT(Run(R"(
  - name: a fall in layer 1
    model: {layers: 2, experts: 4, top_k: 2}
    every: 10 steps
    input:
      - {series: router.token_entropy_ratio, layer: 0, values: 0.9x9}
      - {series: router.token_entropy_ratio, layer: 1, values: 0.9x2 0.4x3 0.7x2}
    expect:
      - {alert: entropy_low, first_step: 30, severity: warning, layers: [1], fault: ""}
      - {alert: entropy_low, first_step: {from: 0, to: 30}}
      - {alert: entropy_low, ends: 70}
      - {alert: entropy_low, at: 45, layers: [1]}
      - {alert: entropy_low, at: 29, firing: false}
      - {at: 60, only: [entropy_low]}
      - {at: 60, only: [], severity: critical}
      - {at: 90, only: []}
      - never: [loss_nonfinite, loss_high]
      - never_severity: critical
)"),
              IsEmpty());
}

TEST_F(RuleTestFiles, AFailureSaysWhatWasExpectedAndWhatCame) {
  EXPECT_THAT(
      Run(R"(
  - name: everything is wrong
    model: {layers: 2}
    every: 10 steps
    input:
      - {series: router.token_entropy_ratio, layer: 0, values: 0.9x9}
      - {series: router.token_entropy_ratio, layer: 1, values: 0.9x2 0.4x3 0.7x2}
    expect:
      - {alert: entropy_low, first_step: {from: 40, to: 50}, severity: critical, layers: all, fault: x}
      - {alert: loss_high, first_step: 30}
      - {alert: loss_high, ends: 30}
      - {alert: entropy_low, at: 29}
      - {alert: entropy_low, at: 30, firing: false}
      - {at: 60, only: [loss_high]}
      - never: [entropy_low]
      - never_severity: warning
)"),
      ElementsAre(
          "entropy_low | fires first at a step from 40 to 50, severity critical, all layers, fault "
          "x | fires first at step 30, severity warning, layers 1, fault (none)",
          "loss_high | fires first at step 30 | never fires",
          "loss_high | ends at step 30 | never ends",
          "entropy_low at step 29 | fires | does not fire",
          "entropy_low at step 30 | does not fire | fires",
          "alerts of info or above at step 60 | loss_high | entropy_low",
          "entropy_low | never fires | fires first at step 30, severity warning",
          "any alert | none of warning or above | entropy_low at step 30, severity warning"));
}

TEST_F(RuleTestFiles, NaNIsAFindingOfItsRank) {
  EXPECT_THAT(Run(R"(
  - name: rank 2
    world_size: 4
    input:
      - {series: train.loss, ranks: [0, 1, 3], values: 3x9}
      - {series: train.loss, rank: 2, values: 3x3 NaN 3x4}
    expect:
      - {alert: loss_nonfinite, first_step: 4, rank: 2, severity: critical, fault: nonfinite_rank}
      - {alert: loss_nonfinite, ends: 7}
  - name: a finding that no series stands for
    world_size: 4
    input:
      - {series: train.loss, ranks: [0, 1, 2, 3], values: 3x9}
    findings: [{step: 5, name: loss, rank: 3, count: 2}]
    expect:
      - {alert: loss_nonfinite, first_step: 5, rank: 3}
  - name: not of a skipped step
    world_size: 4
    input:
      - {series: train.loss, ranks: [0, 1], values: NaN 3x9}
    skipped_steps: [0]
    expect:
      - never: loss_nonfinite
)"),
              IsEmpty());
}

TEST_F(RuleTestFiles, MissingSamplesAndGapsAreNoSamples) {
  EXPECT_THAT(Run(R"(
  - name: missing samples let no data fire
    input:
      - {series: train.loss, values: 3x19 _x5 3x4}
    expect:
      - {alert: loss_silent, first_step: {from: 22, to: 23}}
      - {alert: loss_silent, ends: 25}
  - name: steps that never close, too, once one does
    input:
      - {series: train.loss, values: 3x40}
    gaps: [{from: 20, to: 29}]
    expect:
      - never: loss_high
)"),
              IsEmpty());
}

TEST_F(RuleTestFiles, AttemptsResume) {
  EXPECT_THAT(Run(R"(
  - name: the step comes twice
    attempts:
      - input: [{series: train.loss, values: 3x20 9x4 3x4}]
      - resume: 21
        input: [{series: train.loss, values: 3x9}]
    expect:
      - {alert: loss_high, at: 22, attempt: 1}
      - {alert: loss_high, at: 22, firing: false}
      - {alert: loss_high, first_step: 21}
)"),
              IsEmpty());
}

TEST_F(RuleTestFiles, FiftyAttemptsThatOverlap) {
  std::string test = "  - name: fifty\n    attempts:\n";
  for (int i = 0; i < 50; ++i) {
    absl::StrAppend(&test, "      - ", i > 0 ? absl::StrCat("resume: ", 10 * i, "\n        ") : "",
                    "input: [{series: train.loss, values: 3x20 ", i == 49 ? "9x3" : "3x3", "}]\n");
  }
  absl::StrAppend(&test, "    expect:\n      - {alert: loss_high, first_step: 511}\n");
  EXPECT_THAT(Run(test), IsEmpty());
}

TEST_F(RuleTestFiles, ACaptureIsAnInput) {
  const std::string capture =
      std::string(FORESHOCK_SOURCE_DIR) + "/tests/data/captures/f_router_231.fscap";
  const std::vector<std::string> failures = Run(
      absl::StrCat("  - name: recorded\n    capture: ", capture,
                   "\n    expect:\n      - {alert: entropy_low, first_step: {from: 500, to: 700}}\n"
                   "      - {at: 499, only: []}\n      - never: loss_nonfinite\n"));
  ASSERT_THAT(failures, IsEmpty());
}

TEST_F(RuleTestFiles, ErrorsNameThePlace) {
  const struct {
    const char* test;
    const char* error;
  } kCases[] = {
      {"  - {name: a, input: [{series: train.loss, values: 3}]}",
       "test.yaml:3:5: the key `expect` is missing in item 1 of `tests`"},
      {"  - {name: a, input: [{series: train.loss, values: 3}], expect: []}", "`expect` is empty"},
      {"  - {name: a, expect: [never: loss_high]}", "a test has one of `input` (series)"},
      {"  - {name: a, input: [{series: train.loss, values: 3y}], expect: [never: loss_high]}",
       "test.yaml:3:52: \"3y\" cannot be read to its end"},
      {"  - {name: a, input: [{series: router.token_entropy, values: 3}], expect: [never: a]}",
       "router.token_entropy is a series of a layer; add `layer: 0`"},
      {"  - {name: a, input: [{series: router.token_entropi, values: 3}], expect: [never: a]}",
       "there is no indicator router.token_entropi; did you mean `router.token_entropy`?"},
      {"  - {name: a, input: [{series: train.loss, head: 1, values: 3}], expect: [never: a]}",
       "unknown key `head`"},
      {"  - {name: a, input: [{series: train.loss, values: 3}], expect: [never: loss_hihg]}",
       "the rule files have no alert or signature loss_hihg; did you mean `loss_high`?"},
      {"  - {name: a, input: [{series: train.loss, values: 3}], expect: [{alert: loss_high}]}",
       "an item of `expect` is one of"},
      {"  - {name: a, input: [{series: train.loss, values: 3}], expect: [{at: 7, only: []}]}",
       "step 7 never closes in this test"},
      {"  - {name: a, input: [{series: train.loss, values: 3}], expect: "
       "[{alert: loss_high, first_step: {from: 9, to: 3}}]}",
       "the range ends at 3, before it begins at 9"},
      {"  - {name: a, input: [{series: train.loss, values: 3}], events: [{step: 9, kind: note}], "
       "expect: [never: loss_high]}",
       "step 9 is not in the attempt, which has the steps 0 to 0"},
      {"  - {name: a, capture: nowhere.fscap, expect: [never: loss_high]}", "there is no file"},
      {"  - {name: a, input: [{series: train.loss, every: 0 steps, values: 3}], expect: "
       "[never: loss_high]}",
       "`every` is 0 steps; a number of steps such as \"10 steps\""},
      {"  - {name: a, last_step: 3, input: [{series: train.loss, values: 3x9}], expect: "
       "[never: loss_high]}",
       "`last_step` is 3, but a series has a value at step 9"},
      {"  - {name: a, first_step: 9, last_step: 3, input: [], expect: [never: loss_high]}",
       "`last_step` is 3, before the first step, 9"},
      {"  - {name: a, input: [{series: train.loss, every: 1000 steps, values: 3x1000}], expect: "
       "[never: loss_high]}",
       "the file has more than 1000000 steps in its tests"},
      {"  - {name: a, attempts: [{input: [{series: train.loss, values: 3}]}, {resume: 0, "
       "last_step: 999999, input: []}], expect: [never: loss_high]}",
       "the file has more than 1000000 steps in its tests"},
      {"  - {name: a, attempts: [{resume: 3, input: []}], expect: [never: loss_high]}",
       "the first attempt resumes nothing"},
      {"  - {name: a, input: [{series: train.loss, values: 3}], expect: [never: loss_high]}\n"
       "  - {name: a, input: [{series: train.loss, values: 3}], expect: [never: loss_high]}",
       "test.yaml:4:12: the name a is there twice"},
  };
  for (const auto& c : kCases) {
    const std::vector<std::string> errors = Run(c.test);
    ASSERT_THAT(errors, SizeIs(1)) << c.test;
    EXPECT_THAT(errors[0], HasSubstr(c.error)) << c.test;
  }
}

TEST_F(RuleTestFiles, ManyAttemptsOfTooManyStepsAreRefusedOneByOne) {
  std::string attempts = "{first_step: 9007199254740992, last_step: 0, input: []}";
  for (int i = 0; i < 2000; ++i) {
    absl::StrAppend(&attempts, ", {resume: 0, last_step: 9007199254740992, input: []}");
  }
  const std::vector<std::string> errors =
      Run(absl::StrCat("  - {name: a, attempts: [", attempts, "], expect: [never: loss_high]}"));
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0], HasSubstr("`last_step` is 0, before the first step, 9007199254740992"));
  EXPECT_THAT(errors[0], HasSubstr("the file has more than 1000000 steps in its tests"));
  EXPECT_THAT(errors[0], HasSubstr("and 1901 more errors"));
}

TEST_F(RuleTestFiles, BadRuleFilesAreTheirOwnErrors) {
  Write("rules.yaml", "groups: 3\n");
  EXPECT_THAT(Run("  - {name: a, input: [], expect: [never: a]}"),
              ElementsAre(HasSubstr("rules.yaml:1:9: `groups` is 3")));
  EXPECT_THAT(RunRuleTests("/nowhere.yaml"),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere.yaml")));
}

TEST_F(RuleTestFiles, ATruncatedFileIsAnErrorOrAShorterOne) {
  const std::string text =
      "rule_files: [rules.yaml]\n"
      "tests:\n"
      "  - name: a\n"
      "    input:\n"
      "      - {series: train.loss, values: 3x4 (1 2)x2}\n"
      "    expect:\n"
      "      - {alert: loss_high, at: 3, firing: false}\n";
  for (size_t length = 0; length <= text.size(); ++length) {
    const auto parsed = ParseRuleTests("t.yaml", text.substr(0, length), directory_.path() + "/");
    if (parsed.ok()) continue;
    EXPECT_THAT(parsed.status().message(), HasSubstr(".yaml"));
  }
}

}  // namespace
}  // namespace foreshock::backtest
