// What the verbs `foreshock rules ...` share. Each is one file, verb_rules_<name>.cc, with one
// function that adds it to `rules`.
#pragma once

#include "absl/status/status.h"
#include "client/cli/cli.h"

namespace foreshock::cli {

void AddRulesCheck(CLI::App& rules, Program& program);
void AddRulesTest(CLI::App& rules, Program& program);
void AddRulesBacktest(CLI::App& rules, Program& program);
void AddRulesCalibrate(CLI::App& rules, Program& program);
void AddRulesExplain(CLI::App& rules, Program& program);
void AddRulesExport(CLI::App& rules, Program& program);

// The errors of a rule set, one a line (or as JSON), and which verb could not go on. Returns the
// exit code.
int PrintRuleErrors(const char* verb, const absl::Status& status, Output output);

// Replaces the file. The message names it and the reason.
absl::Status WriteTextFile(const std::string& path, const std::string& text);

}  // namespace foreshock::cli
