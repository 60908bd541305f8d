// foreshock-proxy inspect DIR: what a checkpoint is and what would be pruned.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "daemon/base/format_bytes.h"
#include "nlohmann/json.hpp"
#include "proxy/cli.h"

namespace foreshock::proxy {
namespace {

using cli::Align;
using cli::Table;
using cli::Terminal;

std::string MoeLayers(const Model& model) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < model.moe.size();) {
    size_t j = i;
    while (j + 1 < model.moe.size() && model.moe[j + 1].layer == model.moe[j].layer + 1) ++j;
    const int first = model.moe[i].layer;
    const int last = model.moe[j].layer;
    ranges.push_back(first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last));
    i = j + 1;
  }
  return absl::StrJoin(ranges, ", ");
}

// Half, a quarter and an eighth of the experts: what people try first.
std::vector<int> Candidates(const Model& model) {
  std::vector<int> keeps;
  for (const int divisor : {2, 4, 8}) {
    if (model.experts / divisor > 0) keeps.push_back(model.experts / divisor);
  }
  return keeps;
}

void PrintTables(const Source& source) {
  const Model& model = source.model;
  const Terminal out(stdout);
  Table facts({{"what"}, {"value"}});
  facts.AddRow({"model type", absl::StrCat(model.model_type, " (family ", model.family.name, ")")});
  facts.AddRow({"layers", absl::StrCat(model.layers, ", with experts: ", MoeLayers(model))});
  facts.AddRow(
      {"experts a layer", absl::StrCat(model.experts, model.fused ? ", fused in one tensor" : "")});
  facts.AddRow({"shared experts", model.shared_experts ? "yes, copied" : "none"});
  facts.AddRow({"routing", model.Routing()});
  facts.AddRow({"hidden size", absl::StrCat(model.hidden)});
  facts.AddRow({"files", absl::StrCat(source.checkpoint.shards.size())});
  facts.AddRow({"size", base::FormatBytes(model.bytes())});
  cli::SayLines(facts.Render(out));
  cli::Say("\n");
  Table parts({{"part"}, {"size", Align::kRight}, {"share", Align::kRight}, {"when pruned"}});
  const auto part = [&](const char* name, uint64_t bytes, const char* action) {
    const double share = static_cast<double>(bytes) / static_cast<double>(model.bytes());
    parts.AddRow({name, base::FormatBytes(bytes), absl::StrFormat("%.1f %%", 100 * share), action});
  };
  part("routed experts", model.expert_bytes, "kept experts only, renumbered");
  part("router", model.router_bytes, "rows of kept experts");
  part("shared experts", model.shared_bytes, "copied");
  part("everything else", model.other_bytes, "copied");
  cli::SayLines(parts.Render(out));
  cli::Say("\n");
  Table keeps(
      {{"keep", Align::kRight}, {"size", Align::kRight}, {"pruned", Align::kRight}, {"remarks"}});
  for (const int keep : Candidates(model)) {
    const KeepCheck check = CheckKeep(model, keep, 1);
    const auto& remarks = check.errors.empty() ? check.warnings : check.errors;
    keeps.AddRow(
        {absl::StrCat(keep), base::FormatBytes(model.BytesWith(keep)),
         base::FormatBytes(model.bytes() - model.BytesWith(keep)),
         absl::StrCat(check.errors.empty() ? "" : "impossible: ", absl::StrJoin(remarks, "; "))});
  }
  cli::SayLines(keeps.Render(out));
}

void PrintInspectJson(const Source& source) {
  const Model& model = source.model;
  nlohmann::ordered_json layers = nlohmann::json::array();
  for (const MoeLayer& layer : model.moe) {
    layers.push_back({{"layer", layer.layer}, {"prediction", layer.prediction}});
  }
  nlohmann::ordered_json keeps = nlohmann::json::array();
  for (const int keep : Candidates(model)) {
    const KeepCheck check = CheckKeep(model, keep, 1);
    keeps.push_back({{"keep", keep},
                     {"bytes", model.BytesWith(keep)},
                     {"errors", check.errors},
                     {"warnings", check.warnings}});
  }
  const nlohmann::ordered_json answer = {{"model_type", model.model_type},
                                         {"family", model.family.name},
                                         {"layers", model.layers},
                                         {"moe_layers", layers},
                                         {"experts", model.experts},
                                         {"top_k", model.top_k},
                                         {"groups", model.groups},
                                         {"groups_chosen", model.groups_chosen},
                                         {"shared_experts", model.shared_experts},
                                         {"fused", model.fused},
                                         {"routing", model.Routing()},
                                         {"hidden", model.hidden},
                                         {"files", source.checkpoint.shards.size()},
                                         {"source_sha256", source.checkpoint.sha256},
                                         {"bytes",
                                          {{"experts", model.expert_bytes},
                                           {"router", model.router_bytes},
                                           {"shared_experts", model.shared_bytes},
                                           {"other", model.other_bytes},
                                           {"all", model.bytes()}}},
                                         {"keep", keeps}};
  cli::SayExact(
      absl::StrCat(answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"));
}

int Inspect(const Program& program) {
  const absl::StatusOr<Source> source = OpenSource(program);
  if (!source.ok()) return Finish(source.status());
  if (program.json) {
    PrintInspectJson(*source);
  } else {
    PrintTables(*source);
  }
  return kOk;
}

}  // namespace

void AddInspect(CLI::App& app, Program& program) {
  CLI::App* verb = app.add_subcommand(
      "inspect", "Layers, experts, routing and sizes of a checkpoint, and what would be pruned");
  AddCommonOptions(*verb, program);
  verb->footer(
      "Reads headers only, no weights.\n"
      "Examples:\n"
      "  foreshock-proxy inspect models/olmoe\n"
      "  foreshock-proxy inspect models/olmoe --output=json");
  verb->callback([&program] { program.exit_code = Inspect(program); });
}

}  // namespace foreshock::proxy
