// foreshock-proxy report DIR PROXY: how faithful a proxy is, without a forward pass.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/progress.h"
#include "client/cli/say.h"
#include "client/cli/table.h"
#include "daemon/base/format_bytes.h"
#include "daemon/base/gnuplot.h"
#include "daemon/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proxy/file.h"
#include "proxy/forward.h"
#include "proxy/report.h"
#include "proxy/report_text.h"

namespace foreshock::proxy {
namespace {

using ReportJson = nlohmann::ordered_json;

constexpr char kNoForward[] =
    "cluster agreement, the proxy's own load and entropy, hidden states and output need both "
    "models "
    "to run: foreshock.proxy_report in Python, then --forward";

struct ReportArguments {
  std::string proxy;
  std::vector<std::string> calibration;
  double accelerator_gib = 80;
  std::string file;
  std::string forward;
  std::string markdown;
  std::string plot;
};

ReportJson JsonOf(const std::optional<double>& value) {
  return value ? ReportJson(*value) : ReportJson(nullptr);
}

ReportJson JsonOf(const std::optional<LoadShape>& load) {
  if (!load) return nullptr;
  return {{"entropy_ratio", load->entropy_ratio},
          {"cv", load->variation},
          {"max_violation_ratio", JsonOf(load->max_violation_ratio)}};
}

ReportJson JsonOf(const RowShape& rows) {
  return {{"weight_similarity", JsonOf(rows.weight_similarity)},
          {"centred_conditioning", JsonOf(rows.centred_conditioning)}};
}

// The fewest whose memory holds the weights alone.
uint64_t Accelerators(uint64_t bytes, double gib) {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(bytes) / (gib * (1u << 30))));
}

ReportJson JsonOf(const Report& report, double accelerator_gib) {
  ReportJson layers = ReportJson::array();
  for (const LayerReport& layer : report.layers) {
    layers.push_back(
        {{"layer", layer.layer},
         {"survival", JsonOf(layer.survival)},
         {"kept_probability", JsonOf(layer.kept_probability)},
         {"gate_sum", JsonOf(layer.gate_sum)},
         {"load",
          {{"before", JsonOf(layer.load_before)}, {"expected", JsonOf(layer.load_expected)}}},
         {"token_entropy_ratio", JsonOf(layer.token_entropy_ratio)},
         {"mutual_information", JsonOf(layer.mutual_information)},
         {"margin_p10", JsonOf(layer.margin_p10)},
         {"router", {{"before", JsonOf(layer.rows_before)}, {"after", JsonOf(layer.rows_after)}}}});
  }
  const auto size = [&](uint64_t parameters, uint64_t bytes, int experts) {
    return ReportJson{{"parameters", parameters},
                      {"bytes", bytes},
                      {"experts", experts},
                      {"accelerators_for_weights", Accelerators(bytes, accelerator_gib)}};
  };
  return {{"size",
           {{"before", size(report.parameters_before, report.bytes_before, report.experts)},
            {"after", size(report.parameters_after, report.bytes_after, report.keep)},
            {"accelerator_gib", accelerator_gib}}},
          {"integrity",
           {{"identical", true},
            {"bytes_compared", report.bytes_compared},
            {"config_changes", report.config_changes}}},
          {"survival", JsonOf(report.survival)},
          {"layers", layers},
          {"notes", report.notes}};
}

std::string Cell(const std::optional<double>& value) {
  return value ? absl::StrFormat("%.3f", *value) : "-";
}

// What both models did with the same text.
void PrintForward(const ReportJson& forward) {
  using cli::Align;
  cli::Table table({{"layer", cli::Align::kRight},
                    {"survival", cli::Align::kRight},
                    {"agreement", cli::Align::kRight},
                    {"load entropy", cli::Align::kRight},
                    {"proxy", cli::Align::kRight},
                    {"rank corr.", cli::Align::kRight},
                    {"output error", cli::Align::kRight},
                    {"cosine", cli::Align::kRight},
                    {"stream error", cli::Align::kRight},
                    {"cosine", cli::Align::kRight}});
  const auto cell = [](const ReportJson& value) {
    return Cell(value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt);
  };
  for (const ReportJson& layer : forward["layers"]) {
    const auto& load = layer["load"];
    table.AddRow({layer["layer"].dump(), cell(layer["survival"]), cell(layer["cluster_agreement"]),
                  cell(load["before"]["entropy_ratio"]), cell(load["after"]["entropy_ratio"]),
                  cell(load["rank_correlation"]), cell(layer["output"]["error_mean"]),
                  cell(layer["output"]["cosine_mean"]), cell(layer["stream"]["error_mean"]),
                  cell(layer["stream"]["cosine_mean"])});
  }
  cli::Say("\nboth models on the same %s tokens:\n", forward["tokens"].dump());
  cli::SayLines(table.Render(cli::Terminal(stdout)));
  const ReportJson& output = forward["output"];
  cli::Say("cross-entropy %s -> %s nats, KL of the next token %s nats\n",
           cell(output["cross_entropy_before"]), cell(output["cross_entropy_after"]),
           cell(output["kl"]));
}

void PrintReport(const ReportJson& whole, const Report& report, double accelerator_gib) {
  using cli::Align;
  const cli::Terminal out(stdout);
  cli::Table size({{"size"}, {"source", cli::Align::kRight}, {"proxy", cli::Align::kRight}});
  size.AddRow({"experts a layer", absl::StrCat(report.experts), absl::StrCat(report.keep)});
  size.AddRow({"parameters", absl::StrFormat("%.3g", static_cast<double>(report.parameters_before)),
               absl::StrFormat("%.3g", static_cast<double>(report.parameters_after))});
  size.AddRow(
      {"weights", base::FormatBytes(report.bytes_before), base::FormatBytes(report.bytes_after)});
  size.AddRow({absl::StrCat("accelerators of ", accelerator_gib, " GiB, weights alone"),
               absl::StrCat(Accelerators(report.bytes_before, accelerator_gib)),
               absl::StrCat(Accelerators(report.bytes_after, accelerator_gib))});
  cli::SayLines(size.Render(out));
  cli::Say("\nall %s of the proxy's files are what the source and the plan give\n",
           base::FormatBytes(report.bytes_compared));
  for (const std::string& change : report.config_changes) {
    cli::Say("config.json: %s\n", change);
  }
  cli::Say("\n");
  cli::Table layers({{"layer", cli::Align::kRight},
                     {"survival", cli::Align::kRight},
                     {"kept prob.", cli::Align::kRight},
                     {"load entropy", cli::Align::kRight},
                     {"expected", cli::Align::kRight},
                     {"max violation", cli::Align::kRight},
                     {"expected", cli::Align::kRight},
                     {"similarity", cli::Align::kRight},
                     {"proxy", cli::Align::kRight},
                     {"conditioning", cli::Align::kRight},
                     {"proxy", cli::Align::kRight}});
  for (const LayerReport& layer : report.layers) {
    const auto entropy = [](const std::optional<LoadShape>& load) {
      return Cell(load ? std::optional<double>(load->entropy_ratio) : std::nullopt);
    };
    const auto violation = [](const std::optional<LoadShape>& load) {
      return Cell(load ? load->max_violation_ratio : std::nullopt);
    };
    layers.AddRow(
        {absl::StrCat(layer.layer), Cell(layer.survival), Cell(layer.kept_probability),
         entropy(layer.load_before), entropy(layer.load_expected), violation(layer.load_before),
         violation(layer.load_expected), Cell(layer.rows_before.weight_similarity),
         Cell(layer.rows_after.weight_similarity), Cell(layer.rows_before.centred_conditioning),
         Cell(layer.rows_after.centred_conditioning)});
  }
  cli::SayLines(layers.Render(out));
  cli::Say("\nsurvival over all layers: %s\n", Cell(report.survival));
  if (whole.contains("forward")) PrintForward(whole["forward"]);
  for (const ReportJson& note : whole["notes"]) {
    cli::Say("note: %s\n", note.get<std::string>());
  }
  cli::SayLines(absl::StrCat("\n", kRulesOfUse, "\n"));
}

absl::Status RunReport(const Program& program, const ReportArguments& arguments) {
  FORESHOCK_ASSIGN_OR_RETURN(const Source source, OpenSource(program));
  Program other = program;
  other.checkpoint = arguments.proxy;
  FORESHOCK_ASSIGN_OR_RETURN(const Source proxy, OpenSource(other));
  const std::string file = absl::StrCat(arguments.proxy, "/plan.json");
  FORESHOCK_ASSIGN_OR_RETURN(const std::string text, ReadWhole(file));
  FORESHOCK_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(file, text));
  FORESHOCK_ASSIGN_OR_RETURN(const Calibration calibration,
                             Calibration::Open(arguments.calibration, source.model));
  nlohmann::ordered_json forward;
  if (!arguments.forward.empty()) {
    FORESHOCK_ASSIGN_OR_RETURN(forward, ReadForward(arguments.forward, plan, Sha256(text)));
  }
  if (!arguments.plot.empty()) {
    // Known before the work, not after it.
    FORESHOCK_RETURN_IF_ERROR(base::CheckPlotFile(arguments.plot));
    FORESHOCK_RETURN_IF_ERROR(base::RunGnuplot(""));
  }
  cli::Progress progress("compare", proxy.checkpoint.bytes());
  const auto update = [&](uint64_t done, const std::string& name) {
    progress.Update(done, absl::StrCat(base::FormatBytes(done), ", ", name));
  };
  FORESHOCK_ASSIGN_OR_RETURN(const Report report,
                             MakeReport(source, proxy, plan, calibration, update));
  progress.Finish();
  ReportJson whole = JsonOf(report, arguments.accelerator_gib);
  if (forward.is_object()) {
    whole["forward"] = forward;
  } else {
    whole["notes"].push_back(kNoForward);
  }
  const std::string json = whole.dump(2) + "\n";
  const std::string name = std::filesystem::path(arguments.proxy).filename().string();
  if (!arguments.markdown.empty()) {
    FORESHOCK_RETURN_IF_ERROR(WriteWhole(arguments.markdown, ReportMarkdown(whole, name)));
  }
  if (!arguments.plot.empty()) {
    FORESHOCK_RETURN_IF_ERROR(base::RunGnuplot(ReportScript(whole, name, arguments.plot)));
  }
  if (!arguments.file.empty()) FORESHOCK_RETURN_IF_ERROR(WriteWhole(arguments.file, json));
  if (program.json) {
    cli::SayExact(json);
  } else {
    PrintReport(whole, report, arguments.accelerator_gib);
  }
  return absl::OkStatus();
}

}  // namespace

void AddReport(CLI::App& app, Program& program) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* verb = app.add_subcommand(
      "report", "Compare a proxy with its source: bytes, sizes, routers, what was chosen");
  AddCommonOptions(*verb, program);
  verb->add_option("PROXY", arguments->proxy, "what `slice` or `build` wrote")->required();
  verb->add_option("--calibration", arguments->calibration,
                   "of held-out text, for what the router chose; files add");
  verb->add_option("--accelerator-gib", arguments->accelerator_gib, "memory of one accelerator")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  verb->add_option("-w,--write", arguments->file, "also write the JSON to this file");
  verb->add_option("--forward", arguments->forward,
                   "what foreshock.proxy_report measured with both models");
  verb->add_option("--markdown", arguments->markdown, "also write it as Markdown, report.md");
  verb->add_option("--plot", arguments->plot, "draw the layers, .svg or .png; needs gnuplot");
  verb->footer(
      "Reads every byte of the proxy and compares it with the source. A proxy that is not what "
      "the\n"
      "plan gives is an error.\n"
      "Examples:\n"
      "  foreshock-proxy report models/olmoe models/olmoe-32 --calibration held-out.safetensors\n"
      "  foreshock-proxy report models/olmoe models/olmoe-32 --forward forward.json \\\n"
      "      --markdown report.md --plot report.svg");
  verb->callback(
      [&program, arguments] { program.exit_code = Finish(RunReport(program, *arguments)); });
}

}  // namespace foreshock::proxy
