// Unit tests of rule files: steps made of written-down series (or of a capture) go in, the alerts
// by step are compared with what the test expects. docs/backtest.md describes the files.
//
//   FORESHOCK_ASSIGN_OR_RETURN(RuleTestReport report, RunRuleTests("rules/tests/router.yaml"));
//   for (const RuleTestResult& test : report.tests) Show(test.failures);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/backtest/steps.h"

namespace foreshock::backtest {

// What must hold of the alerts of a test.
struct RuleTestExpectation {
  enum class Kind {
    kFirst,          // the first step at which `alert` fires is in [from, to]
    kEnds,           // the first step at which it resolves is
    kAt,             // at step `from` it fires, or does not
    kOnly,           // at step `from` exactly `names` fire, of `severity` or above
    kNever,          // none of `names` ever fires
    kNeverSeverity,  // nothing of `severity` or above ever fires
  };
  Kind kind = Kind::kFirst;
  std::string place;  // file:line:column
  std::string alert;
  std::vector<std::string> names;
  int64_t from = 0;
  int64_t to = 0;
  bool firing = true;
  std::optional<uint32_t> attempt{};  // of the step; unset: the newest that has it
  // Of the alert at that step; unset or empty: not compared.
  std::string severity;
  std::optional<std::string> fault{};
  std::optional<std::vector<uint32_t>> layers{};
  bool all_layers = false;  // compared if true
  std::optional<uint32_t> rank{};
};

struct RuleTestCase {
  struct Attempt {
    rules::AttemptStart start;
    std::vector<model::ClosedStep> steps;
  };
  std::string name;
  std::string place;
  v1::ModelShape model;
  std::vector<Attempt> attempts;  // empty with a capture
  std::string capture;            // path
  std::vector<RuleTestExpectation> expect;
};

struct RuleTestFile {
  std::shared_ptr<const rules::RuleSet> rules;
  std::vector<RuleTestCase> tests;
};

struct RuleTestFailure {
  std::string place;     // of the expectation
  std::string about;     // "router_collapse at step 560"
  std::string expected;  // one line
  std::string got;       // one line
};

struct RuleTestResult {
  std::string name;
  std::string place;
  uint64_t steps = 0;
  std::vector<RuleTestFailure> failures;  // in the order of the file
  std::string
      fired;  // what fired at all, for a test that failed: "a 330-410 (info), b 400- (warning)"
};

struct RuleTestReport {
  std::string file;
  std::vector<RuleTestResult> tests;
};

// `directory`: what paths in the file are relative to; "" is the current one. InvalidArgument with
// every error of the test file, or of its rule files, as file:line:column.
absl::StatusOr<RuleTestFile> ParseRuleTests(const std::string& file, absl::string_view text,
                                            const std::string& directory);

// Errors: those of ParseRuleTests and ReadYamlFile; of a capture that cannot be read.
absl::StatusOr<RuleTestReport> RunRuleTests(const std::string& file);

// One test against its rules. Errors: of a capture that cannot be read.
absl::StatusOr<RuleTestResult> RunRuleTest(std::shared_ptr<const rules::RuleSet> rules,
                                           const RuleTestCase& test);

}  // namespace foreshock::backtest
