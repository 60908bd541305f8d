// Writing limits back into the text that they were read from.

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/backtest/calibrate.h"
#include "daemon/base/status_macros.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::backtest {
namespace {

struct Edit {
  int line;    // from 1
  int column;  // from 1, in bytes
  size_t length;
  std::string text;
};

std::string LimitText(double value) { return absl::StrFormat("%.6g", value); }

// The map of the rule's detector: the one that has a limit.
std::optional<std::pair<yaml::YamlNode, yaml::YamlNode>> FindLimit(const yaml::YamlNode& rule,
                                                                   double limit) {
  for (const auto& [key, node] : rule.Entries()) {
    if (!node.is_map()) continue;
    for (const char* side : {"above", "below", "outside"}) {
      const yaml::YamlNode value = node.Get(side);
      double number = 0;
      if (value.present() && absl::SimpleAtod(value.String(), &number) && number == limit) {
        return std::pair(node, value);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::string> CalibratedText(absl::string_view name, absl::string_view text,
                                           const Calibration& calibration) {
  absl::flat_hash_map<std::string, const RuleCalibration*> changed;
  for (const RuleCalibration& rule : calibration.rules) {
    if (rule.changed()) changed[rule.rule] = &rule;
  }
  yaml::YamlDocument document(name, text);
  std::vector<Edit> edits;
  std::vector<std::pair<int, std::string>> comments;  // above which line
  for (const yaml::YamlNode& group : document.root().Get("groups").Items()) {
    for (const yaml::YamlNode& node : group.Get("rules").Items()) {
      const auto found = changed.find(node.Get("alert").String());
      if (found == changed.end()) continue;
      const RuleCalibration& rule = *found->second;
      const auto limit = FindLimit(node, rule.limit_before);
      if (!limit.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": the limit of ", rule.rule,
                                                       " is not found as a number in the text"));
      }
      const auto& [detector, value] = *limit;
      edits.push_back({value.line(), value.column(), value.String().size(), LimitText(rule.limit)});
      std::string what =
          absl::StrCat("limit ", LimitText(rule.limit_before), " -> ", LimitText(rule.limit));
      const yaml::YamlNode clear = detector.Get("clear");
      if (clear.present() && rule.clear != rule.clear_before) {
        edits.push_back(
            {clear.line(), clear.column(), clear.String().size(), LimitText(rule.clear)});
        absl::StrAppend(&what, ", clear ", LimitText(rule.clear_before), " -> ",
                        LimitText(rule.clear));
      }
      comments.emplace_back(value.line(), absl::StrCat("# calibrated: ", what, "; ", rule.reason));
    }
  }

  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  // From the back, so that earlier places stay where they are.
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return std::pair(a.line, a.column) > std::pair(b.line, b.column);
  });
  for (const Edit& edit : edits) {
    lines[static_cast<size_t>(edit.line - 1)].replace(static_cast<size_t>(edit.column - 1),
                                                      edit.length, edit.text);
  }
  std::sort(comments.begin(), comments.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [line, comment] : comments) {
    const auto at = lines.begin() + (line - 1);
    const std::string indent = at->substr(0, at->find_first_not_of(' '));
    lines.insert(at, absl::StrCat(indent, comment));
  }
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<std::string> CalibratedFile(const std::string& path,
                                           const Calibration& calibration) {
  std::string text;
  FORESHOCK_RETURN_IF_ERROR(yaml::ReadYamlFile(path, &text));
  return CalibratedText(path, text, calibration);
}

}  // namespace foreshock::backtest
