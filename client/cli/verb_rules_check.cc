// foreshock rules check FILE...: the daemon's own reader of rule files, without the daemon.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/format.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "client/cli/verb_rules.h"
#include "daemon/rules/rule_set.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

void PrintRules(const rules::RuleSet& rules, size_t files) {
  const Terminal out(stdout);
  Table table({{"rule"}, {"severity"}, {"indicator"}, {"file"}});
  for (const v1::RuleInfo& info : rules.infos()) {
    table.AddRow({info.name(), info.severity(), info.indicator().empty() ? "-" : info.indicator(),
                  info.file()});
  }
  SayLines(table.Render(out));
  Say("\n%s %s in %s, no errors\n", out.Paint(Style::kGreen, "✓"),
      Plural(rules.infos().size(), "rule"), Plural(files, "file"));
}

int Check(Output output, const std::vector<std::string>& files) {
  const auto rules = rules::LoadRules(files);
  if (!rules.ok()) return PrintRuleErrors("check", rules.status(), output);
  if (output == Output::kTable) {
    PrintRules(**rules, files.size());
    return kOk;
  }
  nlohmann::json names = nlohmann::json::array();
  for (const v1::RuleInfo& info : (*rules)->infos()) {
    names.push_back({{"name", info.name()},
                     {"group", info.group()},
                     {"severity", info.severity()},
                     {"indicator", info.indicator()},
                     {"file", info.file()}});
  }
  const nlohmann::json answer = {{"valid", true}, {"rules", names}};
  SayExact(
      absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
  return kOk;
}

}  // namespace

void AddRulesCheck(CLI::App& rules, Program& program) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* check = rules.add_subcommand(
      "check", "Read rule files as the daemon would and report every error at once");
  check->add_option("FILE", *files, "rule files, read as one set")->required();
  AddOutputOption(*check, program);
  check->footer(
      "Each error is FILE:LINE:COLUMN: what is wrong and what is allowed. Exit code: 1 with "
      "errors.\n"
      "Example:\n  foreshock rules check rules/default.yaml rules/signatures.yaml");
  check->callback(
      [&program, files] { program.exit_code = Check(program.settings.output, *files); });
}

}  // namespace foreshock::cli
