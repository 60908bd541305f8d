// foreshock-proxy calibrate DIR: a calibration out of what a run's ranks pushed anyway.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "daemon/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proxy/captures.h"
#include "proxy/cli.h"
#include "proxy/stored.h"

namespace foreshock::proxy {
namespace {

struct CalibrateArguments {
  GatherOptions options;
  std::vector<std::string> captures;
  std::string run;  // of the store in `data`
  std::string data;
  std::optional<uint32_t> attempt;
  std::string file = "calib.safetensors";
};

absl::StatusOr<Pushed> Gather(const CalibrateArguments& arguments, const Model& model) {
  if (arguments.run.empty()) return GatherCaptures(arguments.captures, model, arguments.options);
  return GatherStored(arguments.data, arguments.run, arguments.attempt, model);
}

absl::Status RunCalibrate(const Program& program, const CalibrateArguments& arguments) {
  FORESHOCK_ASSIGN_OR_RETURN(const Source source, OpenSource(program));
  FORESHOCK_ASSIGN_OR_RETURN(const Pushed pushed, Gather(arguments, source.model));
  FORESHOCK_RETURN_IF_ERROR(WriteCalibration(arguments.file, source.model, pushed.layers));
  PrintWarnings(pushed.warnings);
  if (program.json) {
    nlohmann::ordered_json layers = nlohmann::json::array();
    for (const auto& [layer, stats] : pushed.layers) {
      layers.push_back({{"layer", layer},
                        {"tokens", stats.tokens},
                        {"rarest", stats.frequency.minCoeff()},
                        {"coactivation", stats.coactivation.has_value()}});
    }
    cli::SayExact(absl::StrCat(
        nlohmann::ordered_json{{"file", arguments.file}, {"layers", layers}}.dump(2), "\n"));
    return absl::OkStatus();
  }
  cli::Table table({{"layer", cli::Align::kRight},
                    {"tokens", cli::Align::kRight},
                    {"rarest expert", cli::Align::kRight},
                    {"co-activation"}});
  for (const auto& [layer, stats] : pushed.layers) {
    table.AddRow({absl::StrCat(layer), absl::StrCat(stats.tokens),
                  absl::StrCat(stats.frequency.minCoeff()), stats.coactivation ? "yes" : "no"});
  }
  cli::SayLines(table.Render(cli::Terminal(stdout)));
  cli::Say("\n%s written\n", arguments.file);
  return absl::OkStatus();
}

}  // namespace

void AddCalibrate(CLI::App& app, Program& program) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CLI::App* verb = app.add_subcommand(
      "calibrate", "Write a calibration from what a run pushed, without a pass over text");
  AddCommonOptions(*verb, program);
  CLI::Option_group* from = verb->add_option_group("from");
  CLI::Option* captures =
      from->add_option("--from-captures", arguments->captures, ".fscap or .jsonl files of the run");
  CLI::Option* run = from->add_option("--from-store", arguments->run,
                                      "a run in a daemon's store, with --data: what it pushed of "
                                      "RouterCoactivation");
  from->require_option(1);
  CLI::Option* data =
      verb->add_option("--data", arguments->data,
                       "the daemon's data directory; read only, also while the daemon runs")
          ->needs(run);
  run->needs(data);
  verb->add_option("--attempt", arguments->attempt,
                   "of the stored run; else the newest that has sums")
      ->needs(run);
  verb->add_option("--first-step", arguments->options.first_step, "the first step that counts")
      ->needs(captures)
      ->capture_default_str();
  verb->add_option("--last-step", arguments->options.last_step, "the last; else all")
      ->needs(captures);
  verb->add_flag("--loads-only", arguments->options.loads_only,
                 "leave co-activation aside: loads are pushed more often")
      ->needs(captures);
  verb->add_option("-w,--write", arguments->file, "the calibration's file")->capture_default_str();
  verb->footer(
      "The store keeps one sum of RouterCoactivation per attempt, and no loads: steps cannot be\n"
      "chosen there, and where ranks push RouterLoad only, captures are needed.\n"
      "Mean inputs and output norms are not pushed: select with --context-weight=0, or by\n"
      "frequency or gate-mass. foreshock.calibrate() in Python counts everything.\n"
      "Examples:\n"
      "  foreshock-proxy calibrate models/olmoe --from-captures run.fscap --first-step=900\n"
      "  foreshock-proxy calibrate models/olmoe --from-store exp-42 --data /var/lib/foreshock\n"
      "  foreshock-proxy select models/olmoe --keep=32 --calibration calib.safetensors \\\n"
      "      --context-weight=0");
  verb->callback(
      [&program, arguments] { program.exit_code = Finish(RunCalibrate(program, *arguments)); });
}

}  // namespace foreshock::proxy
