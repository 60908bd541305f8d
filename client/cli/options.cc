#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/one_of.h"

namespace foreshock::cli {
namespace {

void AddCredentialOptions(CLI::App& verb, Credentials& credentials) {
  const auto file = [&verb](const char* option, std::string& value, const char* help) {
    verb.add_option(option, value, help)->type_name("FILE");
  };
  file("--ca-file", credentials.ca_file,
       "use TLS; PEM, who may sign the daemon's certificate, or 'system' for this machine's "
       "authorities; FORESHOCK_CA_FILE sets it too");
  file("--cert-file", credentials.cert_file,
       "PEM, a certificate of one's own, where the daemon asks for it; FORESHOCK_CERT_FILE");
  file("--key-file", credentials.key_file, "PEM, its key; FORESHOCK_KEY_FILE");
  file("--token-file", credentials.token_file,
       "one line, a token of `foreshock token new`; FORESHOCK_TOKEN_FILE");
  verb.add_option("--server-name", credentials.server_name,
                  "the name in the daemon's certificate, if it is not the address's host; "
                  "FORESHOCK_SERVER_NAME")
      ->type_name("NAME");
}

}  // namespace

CLI::Validator NumberBetween(double min, double max) {
  return CLI::Validator(
      [min, max](std::string& text) {
        double number = 0;
        const bool good = absl::SimpleAtod(text, &number) && number >= min && number <= max;
        return good ? "" : absl::StrCat("'", text, "' is no number from ", min, " to ", max);
      },
      absl::StrCat(min, "..", max));
}

CLI::Validator WholeBetween(int64_t min, int64_t max) {
  return CLI::Validator(
      [min, max](std::string& text) {
        int64_t number = 0;
        const bool good = absl::SimpleAtoi(text, &number) && number >= min && number <= max;
        return good ? "" : absl::StrCat("'", text, "' is no whole number from ", min, " to ", max);
      },
      absl::StrCat(min, "..", max));
}

void AddOutputOption(CLI::App& verb, Program& program) {
  static const std::map<std::string, Output> kOutputs = {{"table", Output::kTable},
                                                         {"json", Output::kJson}};
  verb.add_option("--output,-o", program.settings.output, "table (to read) or json (to process)")
      ->transform(OneOf(kOutputs))
      ->type_name("FORMAT")
      ->default_str("table");
}

void AddHttpOption(CLI::App& verb, std::string* address) {
  verb.add_option("--http", *address, "HTTP address of foreshockd")
      ->envname("FORESHOCK_HTTP")
      ->type_name("HOST:PORT")
      ->capture_default_str();
}

void AddServerOptions(CLI::App& verb, Program& program) {
  verb.add_option("--server,-s", program.settings.server,
                  "gRPC address of foreshockd; FORESHOCK_SERVER sets it too")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  verb.add_option_function<double>(
          "--timeout",
          [&program](const double& seconds) { program.settings.timeout = absl::Seconds(seconds); },
          "give up on an answer after this many seconds")
      ->check(NumberBetween(0.1, 3600))
      ->type_name("SECONDS")
      ->default_str("10");
  AddCredentialOptions(verb, program.settings.credentials);
}

void AddConnectionOptions(CLI::App& verb, Program& program) {
  AddServerOptions(verb, program);
  AddOutputOption(verb, program);
}

}  // namespace foreshock::cli
