#include "proxy/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/say.h"
#include "daemon/base/status_macros.h"

namespace foreshock::proxy {

absl::StatusOr<Source> OpenSource(const Program& program) {
  FORESHOCK_ASSIGN_OR_RETURN(Families families, Families::Builtin());
  if (!program.families.empty()) {
    FORESHOCK_ASSIGN_OR_RETURN(const std::string text, ReadWhole(program.families));
    FORESHOCK_RETURN_IF_ERROR(families.Add(program.families, text));
  }
  FORESHOCK_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(program.checkpoint));
  FORESHOCK_ASSIGN_OR_RETURN(Model model, Recognise(checkpoint, families));
  return Source{std::move(checkpoint), std::move(model)};
}

void AddCommonOptions(CLI::App& verb, Program& program) {
  verb.add_option("DIR", program.checkpoint, "the checkpoint: config.json and safetensors")
      ->required();
  verb.add_option("--families", program.families, "a file of more families, see docs/proxy.md");
  verb.add_option_function<std::string>(
          "--output", [&program](const std::string& form) { program.json = form == "json"; },
          "table or json")
      ->check(CLI::IsMember({"table", "json"}));
}

int Finish(const absl::Status& status) {
  if (status.ok()) return kOk;
  cli::SayErrorLines(absl::StrCat("foreshock-proxy: ", status.message(), "\n"));
  return kFinding;
}

void PrintWarnings(const std::vector<std::string>& warnings) {
  std::set<std::string> printed;
  for (const std::string& warning : warnings) {
    if (!printed.insert(warning).second) continue;
    cli::SayError("foreshock-proxy: warning: %s\n", warning);
  }
}

}  // namespace foreshock::proxy
