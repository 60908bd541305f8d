// The program `foreshock`: asks and feeds a daemon from the command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "client/cli/cli.h"

int main(int argc, char** argv) {
  using namespace foreshock::cli;  // NOLINT
  CLI::App app(
      "Foreshock warns about a training run that goes wrong before its loss shows it.\n"
      "This program asks and feeds foreshockd, the daemon.",
      "foreshock");
  Program program;
  if (const char* server = std::getenv("FORESHOCK_SERVER"); server != nullptr && *server != '\0') {
    program.settings.server = server;
  }
  AddReplay(app, program);
  AddRuns(app, program);
  AddQuery(app, program);
  AddAlerts(app, program);
  AddEvents(app, program);
  AddSummary(app, program);
  AddStatus(app, program);
  AddDoctor(app, program);
  AddRules(app, program);
  AddCompletion(app, program);
  app.require_subcommand(1);
  app.set_version_flag("--version", "foreshock " FORESHOCK_VERSION);
  app.footer(
      "Every command takes --help, with examples, and --output=json.\n"
      "The daemon's address: --server HOST:PORT or FORESHOCK_SERVER.\n"
      "Exit codes: 0 ok, 1 a finding, 2 wrong usage, 3 no daemon answers.\n"
      "Examples:\n"
      "  foreshock replay run.fscap --watch    push a recorded run and watch it being judged\n"
      "  foreshock alerts                      what fires, and what to do about it\n"
      "  foreshock doctor                      is everything all right?");
  // The parser would only say that a command is missing.
  const auto verb_named = [](const char* name) {
    return [name](const CLI::App* verb) { return verb->get_name() == name; };
  };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(verb_named(argv[1])).empty()) {
    std::fprintf(stderr, "foreshock: there is no command '%s'; `foreshock --help` lists them\n",
                 argv[1]);
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too, with 0.
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return program.exit_code;
}
