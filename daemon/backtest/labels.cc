#include "daemon/backtest/labels.h"

#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::backtest {
namespace {

constexpr yaml::YamlRange<int64_t> kLabelSteps = {0, int64_t{1} << 53};
constexpr yaml::YamlRange<int64_t> kLayers = {0, 65535};
constexpr absl::string_view kKnown[] = {"name",      "split",          "expected",
                                        "fault",     "injection_step", "divergence_step",
                                        "harm_step", "layers",         "note"};

// null and absent are the same.
std::string Text(const yaml::YamlNode& node) {
  return node.is_scalar() || node.is_map() || node.is_list() ? node.String() : "";
}
std::optional<int64_t> Step(const yaml::YamlNode& node) {
  if (!node.is_scalar() && !node.is_map() && !node.is_list()) return std::nullopt;
  return node.Int(kLabelSteps);
}

RunLabel::Expected ExpectedOf(absl::string_view word) {
  if (word == "quiet") return RunLabel::Expected::kQuiet;
  if (word == "alarm") return RunLabel::Expected::kAlarm;
  if (word == "warn") return RunLabel::Expected::kWarn;
  return RunLabel::Expected::kUnscored;
}

std::vector<uint32_t> Layers(const yaml::YamlNode& node) {
  std::vector<uint32_t> layers;
  if (!node.is_scalar() && !node.is_map() && !node.is_list()) return layers;
  for (const yaml::YamlNode& item : node.Items()) {
    layers.push_back(static_cast<uint32_t>(item.Int(kLayers)));
  }
  std::sort(layers.begin(), layers.end());
  return layers;
}

}  // namespace

// JSON is YAML, so one reader gives the places of errors in both.
absl::StatusOr<RunLabels> ParseLabels(absl::string_view file, absl::string_view text) {
  yaml::YamlDocument document(file, text);
  const yaml::YamlNode root = document.root();
  Text(root.Get("about"));
  RunLabels labels;
  for (const yaml::YamlNode& run : root.Require("runs").Items()) {
    RunLabel label;
    label.place = labels.size();
    const yaml::YamlNode name = run.Require("name");
    const yaml::YamlNode expected = run.Require("expected");
    const std::string word = expected.Word({"quiet", "alarm", "warn", "unscored"}, "unscored");
    label.expected = ExpectedOf(word);
    if (const std::string split = Text(run.Get("split")); !split.empty()) label.split = split;
    label.fault = Text(run.Get("fault"));
    label.injection_step = Step(run.Get("injection_step"));
    const yaml::YamlNode divergence = run.Get("divergence_step");
    label.divergence_step = Step(divergence);
    label.divergence_known = divergence.present();
    label.harm_step = Step(run.Get("harm_step"));
    label.layers = Layers(run.Get("layers"));
    Text(run.Get("note"));
    for (const auto& [key, value] : run.Entries()) {
      if (!absl::c_linear_search(kKnown, key)) label.ignored.push_back(key);
    }
    const bool ill = word == "alarm" || word == "warn";
    if (ill && !label.injection_step.has_value()) {
      expected.Error(absl::StrCat("a run with `expected: ", word,
                                  "` needs an `injection_step`: what came before it is healthy"));
    }
    if (label.expected == RunLabel::Expected::kQuiet && label.injection_step.has_value()) {
      expected.Error(
          "a run with `expected: quiet` is healthy to its end; `injection_step` must be "
          "null or absent");
    }
    if (!labels.emplace(name.String(), label).second) {
      name.Error(absl::StrCat("the run ", name.String(), " is there twice; a run has one label"));
    }
  }
  FORESHOCK_RETURN_IF_ERROR(document.status());
  return labels;
}

absl::StatusOr<RunLabels> ReadLabels(const std::string& file) {
  std::string text;
  FORESHOCK_RETURN_IF_ERROR(yaml::ReadYamlFile(file, &text));
  return ParseLabels(file, text);
}

}  // namespace foreshock::backtest
