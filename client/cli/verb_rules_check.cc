// foreshock rules check FILE...: the daemon's own reader of rule files, without the daemon.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/format.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "client/cli/verb_rules.h"
#include "daemon/base/status_macros.h"
#include "daemon/rules/rule_set.h"
#include "daemon/rules/unknown_scalars.h"
#include "daemon/store/store.h"
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

// The scalars that the runs of a data directory have sent, without "train.".
absl::StatusOr<absl::flat_hash_set<std::string>> ReadScalars(const std::string& data) {
  absl::flat_hash_set<std::string> scalars;
  if (data.empty()) return scalars;
  FORESHOCK_ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                             store::OpenStore({.directory = data, .read_only = true}));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::RunRow> runs, store->Runs());
  for (const model::RunRow& run : runs) {
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::SeriesKey> series,
                               store->Series(run.name(), {}));
    for (const model::SeriesKey& key : series) {
      absl::string_view name = absl::StripPrefix(key.indicator, "eval.");
      if (absl::ConsumePrefix(&name, "train.")) scalars.insert(std::string(name));
    }
  }
  return scalars;
}

int Check(Output output, const std::vector<std::string>& files, const std::string& data) {
  const auto rules = rules::LoadRules(files);
  if (!rules.ok()) return PrintRuleErrors("check", rules.status(), output);
  const auto scalars = ReadScalars(data);
  if (!scalars.ok()) {
    SayErrorLines(absl::StrCat("foreshock rules check: ", scalars.status().message(), "\n"));
    return kFinding;
  }
  const std::vector<std::string> warnings = rules::UnknownScalars(**rules, *scalars);
  if (output == Output::kTable) {
    PrintRules(**rules, files.size());
    for (const std::string& warning : warnings) SayError("warning: %s\n", warning);
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
  const nlohmann::json answer = {{"valid", true}, {"warnings", warnings}, {"rules", names}};
  SayExact(
      absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
  return kOk;
}

}  // namespace

void AddRulesCheck(CLI::App& rules, Program& program) {
  auto files = std::make_shared<std::vector<std::string>>();
  auto data = std::make_shared<std::string>();
  CLI::App* check = rules.add_subcommand(
      "check", "Read rule files as the daemon would and report every error at once");
  check->add_option("FILE", *files, "rule files, read as one set")->required();
  check
      ->add_option("--data", *data,
                   "a daemon's data directory, of which scalars are known too; read only")
      ->type_name("DIR");
  AddOutputOption(*check, program);
  check->footer(
      "Each error is FILE:LINE:COLUMN: what is wrong and what is allowed. Exit code: 1 with "
      "errors.\n"
      "A scalar that is neither usual nor sent by a run in --data is a warning: such a rule may "
      "wait\n"
      "for a sample for ever.\n"
      "Example:\n  foreshock rules check rules/default.yaml rules/signatures.yaml");
  check->callback([&program, files, data] {
    program.exit_code = Check(program.settings.output, *files, *data);
  });
}

}  // namespace foreshock::cli
