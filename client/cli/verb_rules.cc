// foreshock rules: what works on rule files, without the daemon but for `explain`.
#include "client/cli/verb_rules.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/format.h"
#include "client/cli/say.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {

int PrintRuleErrors(const char* verb, const absl::Status& status, Output output) {
  const std::vector<std::string> errors = absl::StrSplit(status.message(), '\n', absl::SkipEmpty());
  if (output == Output::kJson) {
    const nlohmann::json answer = {{"valid", false}, {"errors", errors}};
    SayExact(
        absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
  } else {
    for (const std::string& error : errors) SayError("%s\n", error);
    SayError("foreshock rules %s: %s\n", verb, Plural(errors.size(), "error"));
  }
  return kFinding;
}

absl::Status WriteTextFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

void AddRules(CLI::App& app, Program& program) {
  CLI::App* rules = app.add_subcommand("rules", "Work with rule files");
  rules->require_subcommand(1);
  AddRulesCheck(*rules, program);
  AddRulesTest(*rules, program);
  AddRulesBacktest(*rules, program);
  AddRulesCalibrate(*rules, program);
  AddRulesExplain(*rules, program);
  AddRulesExport(*rules, program);
}

}  // namespace foreshock::cli
