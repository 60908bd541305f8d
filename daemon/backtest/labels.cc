#include "daemon/backtest/labels.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::backtest {
namespace {

constexpr yaml::YamlRange<int64_t> kLabelSteps = {0, int64_t{1} << 53};

// null and absent are the same.
std::string Text(const yaml::YamlNode& node) {
  return node.is_scalar() || node.is_map() || node.is_list() ? node.String() : "";
}
std::optional<int64_t> Step(const yaml::YamlNode& node) {
  if (!node.is_scalar() && !node.is_map() && !node.is_list()) return std::nullopt;
  return node.Int(kLabelSteps);
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
    const std::string word = expected.Word({"quiet", "alarm", "unscored"}, "unscored");
    label.expected = word == "quiet"   ? RunLabel::Expected::kQuiet
                     : word == "alarm" ? RunLabel::Expected::kAlarm
                                       : RunLabel::Expected::kUnscored;
    if (const std::string split = Text(run.Get("split")); !split.empty()) label.split = split;
    label.fault = Text(run.Get("fault"));
    label.injection_step = Step(run.Get("injection_step"));
    const yaml::YamlNode divergence = run.Get("divergence_step");
    label.divergence_step = Step(divergence);
    label.divergence_known = divergence.present();
    Text(run.Get("note"));
    if (label.expected == RunLabel::Expected::kAlarm && !label.injection_step.has_value()) {
      expected.Error(
          "a run with `expected: alarm` needs an `injection_step`: what came before it "
          "is healthy");
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
