// foreshock-proxy select DIR: which experts a proxy keeps, as plan.json.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "daemon/base/status_macros.h"
#include "proxy/verb_select.h"

namespace foreshock::proxy {
namespace {

absl::Status RunSelect(const Program& program, const SelectArguments& arguments,
                       const std::string& file) {
  FORESHOCK_ASSIGN_OR_RETURN(const Source source, OpenSource(program));
  FORESHOCK_ASSIGN_OR_RETURN(const Plan plan, MakePlan(source, arguments));
  const std::string text = FormatPlan(plan);
  FORESHOCK_RETURN_IF_ERROR(WriteWhole(file, text));
  PrintWarnings(plan.warnings);
  if (program.json) {
    cli::SayExact(text);
    return absl::OkStatus();
  }
  cli::Table table({{"layer", cli::Align::kRight},
                    {"kept", cli::Align::kRight},
                    {"unseen", cli::Align::kRight}});
  for (const LayerPlan& layer : plan.layers) {
    table.AddRow({absl::StrCat(layer.layer), absl::StrCat(layer.kept.size(), " of ", plan.experts),
                  absl::StrCat(layer.unseen.size())});
  }
  cli::SayLines(table.Render(cli::Terminal(stdout)));
  cli::Say("\n%s written\n", file);
  return absl::OkStatus();
}

}  // namespace

void AddSelectOptions(CLI::App& verb, SelectArguments& arguments) {
  SelectOptions& options = arguments.options;
  verb.add_option("--keep", options.keep, "experts to keep in each layer")->required();
  verb.add_option("--calibration", arguments.calibration, "calibration files; they add");
  verb.add_option("--selector", options.selector, "how to choose")
      ->check(CLI::IsMember(Selectors()))
      ->capture_default_str();
  const auto weight = [&](const char* name, double& value, const char* what) {
    verb.add_option(name, value, what)->check(CLI::Range(0.0, 1e6))->capture_default_str();
  };
  weight("--router-weight", options.router_weight, "weight of the router's rows; 0: left out");
  weight("--coactivation-weight", options.coactivation_weight, "weight of partners; 0: left out");
  weight("--context-weight", options.context_weight, "weight of mean inputs; 0: left out");
  verb.add_option("--router-centre", options.centre_router, "take the rows' mean away: yes or no")
      ->capture_default_str();
  verb.add_option("--coactivation", options.coactivation, "profile, raw, direct or jensen-shannon")
      ->transform(CLI::CheckedTransformer(std::vector<std::pair<std::string, Coactivation>>{
          {"profile", Coactivation::kProfile},
          {"raw", Coactivation::kRaw},
          {"direct", Coactivation::kDirect},
          {"jensen-shannon", Coactivation::kJensenShannon}}));
  verb.add_flag("--weigh-by-frequency", options.weigh_by_frequency,
                "frequent experts count more in the clusters' cost");
  verb.add_flag("--medoid", options.medoid_represents,
                "keep the medoid itself, not the most frequent expert near it");
  verb.add_option("--seen-least", options.seen_least, "tokens below which an expert is unseen")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--seed", options.seed, "of selector random")->capture_default_str();
  verb.add_option("--expert-parallel", options.expert_parallel, "ranks that share the experts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

absl::StatusOr<Plan> MakePlan(const Source& source, const SelectArguments& arguments) {
  FORESHOCK_ASSIGN_OR_RETURN(const Calibration calibration,
                             Calibration::Open(arguments.calibration, source.model));
  return Select(source.checkpoint, source.model, calibration, arguments.options);
}

void AddSelect(CLI::App& app, Program& program) {
  auto arguments = std::make_shared<SelectArguments>();
  CLI::App* verb = app.add_subcommand("select", "Decide which experts to keep and write plan.json");
  AddCommonOptions(*verb, program);
  AddSelectOptions(*verb, *arguments);
  auto file = std::make_shared<std::string>("plan.json");
  verb->add_option("-w,--write", *file, "the plan's file")->capture_default_str();
  verb->footer(
      "router-only, random and first-k need no calibration.\n"
      "Examples:\n"
      "  foreshock-proxy select models/olmoe --keep=32 --selector=router-only\n"
      "  foreshock-proxy select models/olmoe --keep=32 --calibration calib.safetensors");
  verb->callback([&program, arguments, file] {
    program.exit_code = Finish(RunSelect(program, *arguments, *file));
  });
}

}  // namespace foreshock::proxy
