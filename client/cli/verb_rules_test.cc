// foreshock rules test TESTFILE...: unit tests of rule files.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/format.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "client/cli/verb_rules.h"
#include "daemon/backtest/rule_test.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

void PrintFailures(const backtest::RuleTestResult& test, const Terminal& out) {
  Say("%s: %s %s\n", test.place, out.Paint(Style::kRed, "FAIL"),
      out.Paint(Style::kBold, test.name));
  for (const backtest::RuleTestFailure& failure : test.failures) {
    Say("  %s: %s\n", failure.place, failure.about);
    Say("    %s\n", out.Paint(Style::kGreen, "- expected: " + failure.expected));
    Say("    %s\n", out.Paint(Style::kRed, "+ got:      " + failure.got));
  }
  Say("  fired in this test: %s\n", test.fired);
}

nlohmann::json ToJson(const backtest::RuleTestReport& report) {
  nlohmann::json tests = nlohmann::json::array();
  for (const backtest::RuleTestResult& test : report.tests) {
    nlohmann::json failures = nlohmann::json::array();
    for (const backtest::RuleTestFailure& failure : test.failures) {
      failures.push_back({{"place", failure.place},
                          {"about", failure.about},
                          {"expected", failure.expected},
                          {"got", failure.got}});
    }
    tests.push_back({{"name", test.name},
                     {"place", test.place},
                     {"steps", test.steps},
                     {"passed", test.failures.empty()},
                     {"failures", failures}});
  }
  return {{"file", report.file}, {"tests", tests}};
}

int Test(const Settings& settings, const std::vector<std::string>& files) {
  const Terminal out(stdout);
  nlohmann::json reports = nlohmann::json::array();
  nlohmann::json errors = nlohmann::json::array();
  uint64_t tests = 0;
  uint64_t failed = 0;
  for (const std::string& file : files) {
    const auto report = backtest::RunRuleTests(file);
    if (!report.ok()) {
      for (const auto line : absl::StrSplit(report.status().message(), '\n', absl::SkipEmpty())) {
        errors.push_back(std::string(line));
        if (settings.output == Output::kTable) {
          SayError("%s\n", line);
        }
      }
      continue;
    }
    reports.push_back(ToJson(*report));
    for (const backtest::RuleTestResult& test : report->tests) {
      ++tests;
      if (test.failures.empty()) continue;
      ++failed;
      if (settings.output == Output::kTable) PrintFailures(test, out);
    }
  }
  const bool good = failed == 0 && errors.empty();
  if (settings.output == Output::kJson) {
    const nlohmann::json answer = {{"passed", good}, {"files", reports}, {"errors", errors}};
    SayExact(
        absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
  } else {
    Say("%s %s in %s: %s passed, %s failed%s\n",
        good ? out.Paint(Style::kGreen, "✓") : out.Paint(Style::kRed, "✗"), Plural(tests, "test"),
        Plural(files.size(), "file"), FormatCount(tests - failed), FormatCount(failed),
        errors.empty() ? "" : absl::StrCat(", ", Plural(errors.size(), "error")));
  }
  return good ? kOk : kFinding;
}

}  // namespace

void AddRulesTest(CLI::App& rules, Program& program) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = rules.add_subcommand(
      "test", "Run unit tests of rule files: series in, expected alerts by step out");
  verb->add_option("TESTFILE", *files, "test files; docs/backtest.md describes them")->required();
  AddOutputOption(*verb, program);
  verb->footer(
      "A test file names its rule files, writes down series and says which alerts they must\n"
      "raise:\n"
      "  rule_files: [my.yaml]\n"
      "  tests:\n"
      "    - name: an extreme logit fires\n"
      "      input:\n"
      "        - {series: attn.logits.max, layer: 0, every: 10 steps, values: 20x30 200x5}\n"
      "      expect:\n"
      "        - {alert: logit_extreme, first_step: 310, severity: warning, layers: [0]}\n"
      "Exit code: 1 if a test fails or a file has errors.\n"
      "Examples:\n"
      "  foreshock rules test rules/tests/*.yaml\n"
      "  foreshock rules test mine_test.yaml -o json");
  verb->callback([&program, files] { program.exit_code = Test(program.settings, *files); });
}

}  // namespace foreshock::cli
