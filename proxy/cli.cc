#include "proxy/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/str_format.h"
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
  std::fprintf(stderr, "foreshock-proxy: %s\n", std::string(status.message()).c_str());
  return kFinding;
}

std::string Gibibytes(uint64_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1u << 30));
}

}  // namespace foreshock::proxy
