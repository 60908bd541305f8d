#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "client/cli/cli.h"
#include "client/cli/one_of.h"

namespace foreshock::cli {

void AddOutputOption(CLI::App& verb, Program& program) {
  static const std::map<std::string, Output> kOutputs = {{"table", Output::kTable},
                                                         {"json", Output::kJson}};
  verb.add_option("--output,-o", program.settings.output, "table (to read) or json (to process)")
      ->transform(OneOf(kOutputs))
      ->type_name("FORMAT")
      ->default_str("table");
}

void AddConnectionOptions(CLI::App& verb, Program& program) {
  verb.add_option("--server,-s", program.settings.server,
                  "gRPC address of foreshockd; FORESHOCK_SERVER sets it too")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  verb.add_option_function<double>(
          "--timeout",
          [&program](const double& seconds) { program.settings.timeout = absl::Seconds(seconds); },
          "give up on an answer after this many seconds")
      ->check(CLI::Range(0.1, 3600.0).description(""))
      ->type_name("SECONDS")
      ->default_str("10");
  AddOutputOption(verb, program);
}

}  // namespace foreshock::cli
