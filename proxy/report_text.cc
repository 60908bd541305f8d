#include "proxy/report_text.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/base/gnuplot.h"
#include "proxy/cli.h"

namespace foreshock::proxy {
namespace {

using TextJson = nlohmann::ordered_json;

constexpr int kPictureWidth = 1000;
constexpr int kPicturePanel = 220;
constexpr int kPictureTop = 50;
constexpr int kPictureGap = 40;

// A number below `object`; null where it, or what is around it, is missing.
TextJson At(const TextJson& object, const std::string& pointer) {
  const TextJson::json_pointer at(pointer);
  return object.contains(at) ? object[at] : TextJson();
}

std::string Shown(const TextJson& value) {
  return value.is_number() ? absl::StrFormat("%.3f", value.get<double>()) : "–";
}

// A column of a table of layers: its title, and where its number is.
using LayerColumns = std::vector<std::pair<std::string, std::string>>;

std::string LayerTable(const TextJson& layers, const LayerColumns& columns) {
  std::string text = "| layer |";
  for (const auto& [title, pointer] : columns) absl::StrAppend(&text, " ", title, " |");
  absl::StrAppend(&text, "\n|---|");
  for (size_t i = 0; i < columns.size(); ++i) absl::StrAppend(&text, "---|");
  for (const TextJson& layer : layers) {
    absl::StrAppend(&text, "\n| ", layer["layer"].dump(), " |");
    for (const auto& [title, pointer] : columns) {
      absl::StrAppend(&text, " ", Shown(At(layer, pointer)), " |");
    }
  }
  return text + "\n";
}

std::string SizeTable(const TextJson& size) {
  std::string text = "| | source | proxy |\n|---|---|---|\n";
  const auto row = [&](const std::string& title, const char* key) {
    absl::StrAppend(&text, "| ", title, " | ", size["before"][key].dump(), " | ",
                    size["after"][key].dump(), " |\n");
  };
  row("experts a layer", "experts");
  row("parameters", "parameters");
  row("bytes", "bytes");
  row(absl::StrCat("accelerators of ", size["accelerator_gib"].dump(), " GiB, weights alone"),
      "accelerators_for_weights");
  return text;
}

std::string Bullets(const TextJson& lines, const char* before) {
  std::string text;
  for (const TextJson& line : lines) {
    absl::StrAppend(&text, "- ", before, line.get<std::string>(), "\n");
  }
  return text;
}

}  // namespace

std::string ReportMarkdown(const TextJson& report, const std::string& name) {
  std::string text = absl::StrCat("# ", name, "\n\n", SizeTable(report["size"]), "\n");
  absl::StrAppend(&text, "All ", report["integrity"]["bytes_compared"].dump(),
                  " bytes of its files are what the source and the plan give.\n\n",
                  Bullets(report["integrity"]["config_changes"], "config.json: "), "\n");
  absl::StrAppend(&text, "Survival over all layers: ", Shown(report["survival"]), "\n\n");
  absl::StrAppend(
      &text, LayerTable(report["layers"], {{"survival", "/survival"},
                                           {"kept probability", "/kept_probability"},
                                           {"load entropy", "/load/before/entropy_ratio"},
                                           {"expected", "/load/expected/entropy_ratio"},
                                           {"max violation", "/load/before/max_violation_ratio"},
                                           {"expected", "/load/expected/max_violation_ratio"},
                                           {"similarity", "/router/before/weight_similarity"},
                                           {"proxy", "/router/after/weight_similarity"},
                                           {"conditioning", "/router/before/centred_conditioning"},
                                           {"proxy", "/router/after/centred_conditioning"}}));
  if (report.contains("forward")) {
    const TextJson& forward = report["forward"];
    absl::StrAppend(
        &text, "\n## Both models on the same text\n\n", forward["tokens"].dump(),
        " tokens. Cross-entropy ", Shown(At(forward, "/output/cross_entropy_before")), " → ",
        Shown(At(forward, "/output/cross_entropy_after")), " nats, KL of the next token ",
        Shown(At(forward, "/output/kl")), " nats, over ", At(forward, "/output/positions").dump(),
        " positions.\n\nRouting decisions:\n\n",
        LayerTable(forward["layers"], {{"survival", "/survival"},
                                       {"cluster agreement", "/cluster_agreement"},
                                       {"token entropy", "/router/before/token_entropy_ratio"},
                                       {"proxy", "/router/after/token_entropy_ratio"},
                                       {"mutual information", "/router/before/mutual_information"},
                                       {"proxy", "/router/after/mutual_information"},
                                       {"margin p10", "/router/before/margin_p10"},
                                       {"proxy", "/router/after/margin_p10"}}),
        "\nUse of the experts:\n\n",
        LayerTable(forward["layers"], {{"load entropy", "/load/before/entropy_ratio"},
                                       {"proxy", "/load/after/entropy_ratio"},
                                       {"max violation", "/load/before/max_violation_ratio"},
                                       {"proxy", "/load/after/max_violation_ratio"},
                                       {"rank correlation", "/load/rank_correlation"}}),
        "\nHidden states:\n\n",
        LayerTable(forward["layers"], {{"MoE output: error", "/output/error_mean"},
                                       {"p90", "/output/error_p90"},
                                       {"cosine", "/output/cosine_mean"},
                                       {"residual stream: error", "/stream/error_mean"},
                                       {"p90", "/stream/error_p90"},
                                       {"cosine", "/stream/cosine_mean"}}));
  }
  absl::StrAppend(&text, "\n## Notes\n\n", Bullets(report["notes"], ""), "\n", kRulesOfUse, "\n");
  return text;
}

std::string ReportScript(const TextJson& report, const std::string& name, const std::string& file) {
  struct Panel {
    std::string title;
    LayerColumns lines;
  };
  const bool forward = report.contains("forward");
  const TextJson& layers = forward ? report["forward"]["layers"] : report["layers"];
  std::vector<Panel> panels;
  if (forward) {
    panels = {{"routing decisions",
               {{"survival", "/survival"}, {"cluster agreement", "/cluster_agreement"}}},
              {"use of the experts",
               {{"load entropy, original", "/load/before/entropy_ratio"},
                {"load entropy, proxy", "/load/after/entropy_ratio"},
                {"rank correlation of the loads", "/load/rank_correlation"}}},
              {"hidden states, relative error",
               {{"MoE output", "/output/error_mean"},
                {"MoE output, p90", "/output/error_p90"},
                {"residual stream", "/stream/error_mean"},
                {"residual stream, p90", "/stream/error_p90"}}}};
  } else {
    panels = {{"routing decisions",
               {{"survival", "/survival"}, {"kept probability", "/kept_probability"}}},
              {"use of the experts",
               {{"load entropy, original", "/load/before/entropy_ratio"},
                {"load entropy, expected", "/load/expected/entropy_ratio"}}}};
  }
  const int height =
      kPictureTop + static_cast<int>(panels.size()) * (kPicturePanel + kPictureGap) + kPictureGap;
  std::string text = absl::StrCat(
      base::gnuplot::Output(file, kPictureWidth, height),
      "set datafile missing 'NaN'\nset multiplot\n",
      "set lmargin at screen 0.08\nset rmargin at screen 0.97\n",
      "set tics nomirror out scale 0.5\nset border 3 lc rgb '#666666'\nset xtics 1\n",
      "set grid ytics lc rgb '#e4e4e4' lt 1 lw 1\n",
      "set key at graph 0.995,0.98 right top horizontal samplen 1.5 font ',10' opaque\n",
      "set xrange [-0.5:", static_cast<double>(layers.size()) - 0.5, "]\n");
  if (layers.size() > 20) absl::StrAppend(&text, "set xtics autofreq\n");
  absl::StrAppend(&text, "set label 1 ", base::gnuplot::Quote(name), " at screen 0.08,",
                  1 - 20.0 / height, " left front font ',15'\n");
  int top = kPictureTop;
  for (size_t p = 0; p < panels.size(); ++p) {
    absl::StrAppendFormat(&text,
                          "set tmargin at screen %.5f\nset bmargin at screen %.5f\n"
                          "set label 2 %s at graph 0,1.0 offset 0,0.6 left front font ',11'\n",
                          1 - static_cast<double>(top) / height,
                          1 - static_cast<double>(top + kPicturePanel) / height,
                          base::gnuplot::Quote(panels[p].title));
    absl::StrAppend(&text, p + 1 == panels.size() ? "set xlabel 'MoE layer, in order'\n" : "");
    std::vector<std::string> lines;
    for (size_t i = 0; i < panels[p].lines.size(); ++i) {
      const auto& [title, pointer] = panels[p].lines[i];
      absl::StrAppend(&text, "$p", p, "l", i, " << EOD\n");
      size_t place = 0;
      for (const TextJson& layer : layers) {
        const TextJson value = At(layer, pointer);
        absl::StrAppend(&text, place++, " ",
                        value.is_number() ? base::gnuplot::Number(value.get<double>()) : "NaN",
                        "\n");
      }
      absl::StrAppend(&text, "EOD\n");
      lines.push_back(absl::StrFormat(
          "$p%dl%d with linespoints lw 1.6 pt 7 ps 0.5 lc rgb '%s' title %s", p, i,
          base::gnuplot::kColours[i % base::gnuplot::kColoured], base::gnuplot::Quote(title)));
    }
    absl::StrAppend(&text, "set offsets 0,0,graph 0.25,graph 0.05\nplot ",
                    absl::StrJoin(lines, ", "), "\nunset offsets\nunset label 1\n");
    top += kPicturePanel + kPictureGap;
  }
  return text + "unset multiplot\nset output\n";
}

}  // namespace foreshock::proxy
