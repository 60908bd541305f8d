// The program `foreshock`: asks and feeds a daemon from the command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "client/cli/cli.h"
#include "client/cli/say.h"

using foreshock::cli::SayError;
using foreshock::cli::SayErrorLines;

namespace {

// Whether the arguments begin with a command, down to the verb of `rules VERB`. If not it says what
// there is; the parser would only say that a command is missing. --help and --version are the
// parser's.
bool NamesACommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  for (int i = 1; at->get_require_subcommand_min() > 0; ++i) {
    if (i == argc) {
      const std::string parent = at == &app ? "" : app.get_name();
      SayErrorLines(at->help(parent));
      return false;
    }
    const std::string word = argv[i];
    if (word == "-h" || word == "--help" || word == "--version") return true;
    if (word[0] == '-') {
      SayError("%s: a command comes first, its options after it: %s COMMAND %s ...\n",
               app.get_name(), path, word);
      return false;
    }
    const auto named =
        at->get_subcommands([&](const CLI::App* verb) { return verb->get_name() == word; });
    if (named.empty()) {
      SayError("%s: there is no command '%s'; `%s --help` lists them\n", app.get_name(), word,
               path);
      return false;
    }
    at = named[0];
    path += " " + word;
  }
  return true;
}

// "foreshock query: --steps is missing ...": which command it was, and where its options are told.
std::string WrongUsage(const CLI::App* app, const CLI::Error& error) {
  std::string command = app->get_name();
  for (const CLI::App* at = app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().back();
    command += " " + at->get_name();
  }
  return command + ": " + error.what() + "\n  `" + command + " --help` says what is allowed\n";
}

}  // namespace

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
  program.settings.credentials = foreshock::CredentialsFromEnvironment();
  AddReplay(app, program);
  AddImport(app, program);
  AddRuns(app, program);
  AddQuery(app, program);
  AddExport(app, program);
  AddAlerts(app, program);
  AddEvents(app, program);
  AddTop(app, program);
  AddSummary(app, program);
  AddCompare(app, program);
  AddFidelity(app, program);
  AddStatus(app, program);
  AddDoctor(app, program);
  AddToken(app, program);
  AddStore(app, program);
  AddRules(app, program);
  AddCompletion(app, program);
  app.require_subcommand(1);
  app.set_version_flag("--version", "foreshock " FORESHOCK_VERSION);
  app.footer(
      "Every command takes --help, with examples, and --output=json.\n"
      "The daemon's address: --server HOST:PORT or FORESHOCK_SERVER.\n"
      "TLS: --ca-file or FORESHOCK_CA_FILE; a token: --token-file or FORESHOCK_TOKEN_FILE.\n"
      "Exit codes: 0 ok, 1 a finding, 2 wrong usage, 3 no daemon answers.\n"
      "Examples:\n"
      "  foreshock replay run.fscap --watch    push a recorded run and watch it being judged\n"
      "  foreshock alerts                      what fires, and what to do about it\n"
      "  foreshock doctor                      is everything all right?");
  if (!NamesACommand(app, argc, argv)) return kUsage;
  app.failure_message(WrongUsage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too, with 0.
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return program.exit_code;
}
