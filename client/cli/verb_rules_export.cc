// foreshock rules export --format=prometheus FILE...: the rules in the language of another system.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/say.h"
#include "client/cli/verb_rules.h"
#include "daemon/rules/prometheus.h"
#include "daemon/rules/rule_set.h"

namespace foreshock::cli {
namespace {

struct ExportOptions {
  std::vector<std::string> files;
  std::string out;
  rules::PromqlOptions promql;
};

int Export(const ExportOptions& options, Output output) {
  const auto rules = rules::LoadRules(options.files);
  if (!rules.ok()) return PrintRuleErrors("export", rules.status(), output);
  const std::string command = absl::StrFormat(
      "foreshock rules export --format=prometheus --step-seconds=%g --sample-steps=%d "
      "--warm-up-steps=%d --severity-min=%s --keep-firing-seconds=%d %s",
      options.promql.step_seconds, options.promql.sample_steps, options.promql.warm_up_steps,
      options.promql.severity_min, options.promql.keep_firing_seconds,
      absl::StrJoin(options.files, " "));
  const std::string text = rules::PrometheusRules(**rules, options.promql, command);
  if (options.out.empty()) {
    SayExact(text);
    return kOk;
  }
  const absl::Status written = WriteTextFile(options.out, text);
  if (written.ok()) return kOk;
  SayError("foreshock rules export: %s\n", std::string(written.message()));
  return kFinding;
}

}  // namespace

void AddRulesExport(CLI::App& rules, Program& program) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* verb = rules.add_subcommand(
      "export", "Write rules as Prometheus alerting rules over the daemon's metrics");
  verb->add_option("FILE", options->files, "rule files, read as one set")->required();
  verb->add_option("--format", "prometheus, the only one")
      ->check(CLI::IsMember({"prometheus"}).description(""))
      ->type_name("FORMAT")
      ->default_str("prometheus");
  verb->add_option("--write,-w", options->out, "write to this file instead of the terminal")
      ->type_name("FILE");
  verb->add_option("--step-seconds", options->promql.step_seconds,
                   "wall time of a step, to turn windows in steps into time")
      ->check(NumberBetween(0.001, 86400))
      ->type_name("SECONDS")
      ->capture_default_str();
  verb->add_option("--sample-steps", options->promql.sample_steps,
                   "steps between two samples of weights, gates and tensors")
      ->check(WholeBetween(1, 1'000'000))
      ->type_name("STEPS")
      ->capture_default_str();
  verb->add_option("--warm-up-steps", options->promql.warm_up_steps,
                   "steps before which nothing is judged centrally")
      ->check(WholeBetween(0, 1'000'000'000))
      ->type_name("STEPS")
      ->capture_default_str();
  verb->add_option("--severity-min", options->promql.severity_min,
                   "leave out what is never so severe: info, warning or critical")
      ->check(CLI::IsMember({"info", "warning", "critical"}).description(""))
      ->type_name("SEVERITY")
      ->capture_default_str();
  verb->add_option("--keep-firing-seconds", options->promql.keep_firing_seconds,
                   "how long an alert of the daemon outlives a restart of the daemon, and its end")
      ->check(WholeBetween(0, 86400))
      ->type_name("SECONDS")
      ->capture_default_str();
  verb->footer(
      "Two groups: what the daemon judged (exact), and the same rules judged again by Prometheus\n"
      "over exported gauges (an approximation in wall time; comments list what has no gauge).\n"
      "The default pack's own rules are of severity info: --severity-min info exports them too.\n"
      "Check it with: promtool check rules FILE. Explained in docs/prometheus-rules.md.\n"
      "Example:\n"
      "  foreshock rules export rules/default.yaml rules/signatures.yaml -w foreshock-alerts.yaml");
  verb->callback(
      [&program, options] { program.exit_code = Export(*options, program.settings.output); });
}

}  // namespace foreshock::cli
