// What the verbs of the program `foreshock` share. A verb is one file, verb_<name>.cc, with one
// function that adds it to the parser; its callback leaves the exit code in Program.
//
//   Program program;
//   AddRuns(app, program);
//   app.parse(argc, argv);
//   return program.exit_code;
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/cli/defaults.h"
#include "foreshock/credentials.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace foreshock::cli {

enum ExitCode : int {
  kOk = 0,
  kFinding = 1,      // the answer is bad news: errors in a rule file, an unknown run, a sick daemon
  kUsage = 2,        // the command line is wrong
  kUnreachable = 3,  // no daemon answers at the address
};

enum class Output { kTable, kJson };

// Set by the options that every verb has; main() takes the server and the credentials from the
// environment first.
struct Settings {
  std::string server = kDefaultServer;  // host:port of gRPC
  Credentials credentials;
  Output output = Output::kTable;
  absl::Duration timeout = absl::Seconds(10);  // of one call
};

struct Program {
  Settings settings;
  int exit_code = kOk;
};

// For CLI::Option::check: a number, or a whole number, from min to max; --help shows the range.
// CLI::Range takes "nan" for a number, and shows its own words for one.
CLI::Validator NumberBetween(double min, double max);
CLI::Validator WholeBetween(int64_t min, int64_t max);

// --server, --timeout and the files of TLS and the token.
void AddServerOptions(CLI::App& verb, Program& program);
// Those and --output.
void AddConnectionOptions(CLI::App& verb, Program& program);
// --output alone, for verbs that need no daemon.
void AddOutputOption(CLI::App& verb, Program& program);

// --http, and FORESHOCK_HTTP.
void AddHttpOption(CLI::App& verb, std::string* address);

void AddReplay(CLI::App& app, Program& program);
void AddImport(CLI::App& app, Program& program);
void AddRuns(CLI::App& app, Program& program);
void AddQuery(CLI::App& app, Program& program);
void AddExport(CLI::App& app, Program& program);
void AddAlerts(CLI::App& app, Program& program);
void AddAlertActions(CLI::App& alerts, Program& program);  // ack, silence, silences, unsilence
void AddEvents(CLI::App& app, Program& program);
void AddTop(CLI::App& app, Program& program);
void AddSummary(CLI::App& app, Program& program);
void AddCompare(CLI::App& app, Program& program);
void AddFidelity(CLI::App& app, Program& program);
void AddStatus(CLI::App& app, Program& program);
void AddDoctor(CLI::App& app, Program& program);
void AddToken(CLI::App& app, Program& program);
void AddStore(CLI::App& app, Program& program);
void AddRules(CLI::App& app, Program& program);
void AddCompletion(CLI::App& app, Program& program);

}  // namespace foreshock::cli
