// foreshock doctor: is everything all right, and if not, what to do.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/cli.h"
#include "client/cli/diagnosis.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "nlohmann/json.hpp"

namespace foreshock::cli {
namespace {

using Level = Finding::Level;

void Print(const Diagnosis& diagnosis) {
  const Terminal out(stdout);
  for (const Finding& finding : diagnosis.findings) {
    const std::string mark = finding.level == Level::kGood      ? out.Paint(Style::kGreen, "✓")
                             : finding.level == Level::kWarning ? out.Paint(Style::kYellow, "!")
                                                                : out.Paint(Style::kRed, "✗");
    Say("%s %-11s %s\n", mark, finding.check, finding.detail);
    if (!finding.mend.empty()) Say("%-13s → %s\n", "", finding.mend);
  }
}

void PrintAsJson(const Diagnosis& diagnosis) {
  nlohmann::json checks = nlohmann::json::array();
  for (const Finding& finding : diagnosis.findings) {
    checks.push_back({{"check", finding.check},
                      {"result", finding.level == Level::kGood      ? "good"
                                 : finding.level == Level::kWarning ? "warning"
                                                                    : "bad"},
                      {"detail", finding.detail},
                      {"mend", finding.mend}});
  }
  const nlohmann::json answer = {{"healthy", diagnosis.healthy()}, {"checks", checks}};
  SayExact(
      absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
}

int Doctor(const Settings& settings, const std::string& http_address) {
  const Diagnosis diagnosis = Diagnose(settings, http_address);
  if (settings.output == Output::kJson) {
    PrintAsJson(diagnosis);
  } else {
    Print(diagnosis);
  }
  if (!diagnosis.reachable) return kUnreachable;
  return diagnosis.healthy() ? kOk : kFinding;
}

}  // namespace

void AddDoctor(CLI::App& app, Program& program) {
  auto http = std::make_shared<std::string>(kDefaultHttp);
  CLI::App* verb =
      app.add_subcommand("doctor", "Check the daemon and say how to mend what is wrong");
  AddHttpOption(*verb, http.get());
  AddConnectionOptions(*verb, program);
  verb->footer(
      "Looks at: the connection, TLS and its certificates, the token, the gRPC health service, "
      "server\n"
      "reflection, versions, the store, the rules, HTTP readiness, the clocks, /metrics, whether\n"
      "people are told of alerts.\n"
      "Exit code: 0 all right (warnings allowed), 1 something is wrong, 3 no daemon.\n"
      "Example:\n  foreshock doctor --server 10.0.0.7:7317 --http 10.0.0.7:7318");
  verb->callback([&program, http] { program.exit_code = Doctor(program.settings, *http); });
}

}  // namespace foreshock::cli
