#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/rules/alert_text.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {
namespace {

constexpr int64_t kLengthMax = 1'000'000'000;
constexpr absl::string_view kSeverities[] = {"info", "warning", "critical"};

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= 128 && (absl::ascii_isalpha(text[0]) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

}  // namespace

int SeverityRank(absl::string_view severity) {
  return severity == "critical" ? 2 : severity == "warning" ? 1 : 0;
}

std::string ParseName(const yaml::YamlNode& node) {
  std::string name = node.String();
  if (node.present() && node.is_scalar() && !IsName(name)) {
    node.Error(absl::StrCat("the name ", name,
                            " is not allowed; a name is a letter or '_', then at most 127 letters, "
                            "digits and '_'"));
  }
  return name;
}

Length ParseLength(const yaml::YamlNode& node, Length fallback) {
  if (!node.present()) return fallback;
  const std::string text = node.String();
  if (!node.is_scalar()) return fallback;
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  Length length;
  if (words.size() == 2 && absl::SimpleAtoi(words[0], &length.count) && length.count >= 0 &&
      length.count <= kLengthMax) {
    length.in_samples = words[1] == "samples" || words[1] == "sample";
    if (length.in_samples || words[1] == "steps" || words[1] == "step") return length;
  }
  node.Error(absl::StrCat("the length ", text,
                          " is not allowed; write steps or samples, for example \"20 steps\" or "
                          "\"3 samples\", at most ",
                          kLengthMax));
  return fallback;
}

int64_t ParseSteps(const yaml::YamlNode& node) {
  const Length length = ParseLength(node, {.count = 1});
  if (length.in_samples || length.count < 1) {
    node.Error(absl::StrCat("the length ", node.String(),
                            " is not allowed here; write at least 1 in steps, for example "
                            "\"100 steps\""));
  }
  return length.count;
}

RateLimitSpec ParseRateLimit(const yaml::YamlNode& node) {
  RateLimitSpec spec;
  if (!node.present()) return spec;
  spec.starts = static_cast<int>(node.Require("starts").Int({1, 1000}, 1));
  spec.steps = ParseSteps(node.Require("in"));
  return spec;
}

Labels ParseLabels(const yaml::YamlNode& owner, const yaml::YamlNode& labels,
                   const std::optional<yaml::YamlNode>& default_labels) {
  Labels result;
  bool has_severity = false;
  const auto read = [&](const yaml::YamlNode& from) {
    for (const auto& [key, value] : from.Entries()) {
      if (key == "severity") {
        result.severity = value.Word(kSeverities, "info");
        has_severity = true;
      } else if (key == "fault") {
        result.fault = ParseName(value);
      } else if (!IsName(key)) {
        value.Error(absl::StrCat("the label ", key,
                                 " is not allowed; a label is a letter or '_', then letters, "
                                 "digits and '_'"));
      } else if (key == "alertname" || key == "run" || key == "layer" || key == "flapping") {
        value.Error(absl::StrCat("the label ", key, " is set by Foreshock; choose another name"));
      } else {
        const auto same = [&key = key](const auto& label) { return label.first == key; };
        auto found = std::find_if(result.others.begin(), result.others.end(), same);
        if (found == result.others.end()) {
          result.others.emplace_back(key, value.String());
        } else {
          found->second = value.String();
        }
      }
    }
  };
  if (default_labels.has_value()) read(*default_labels);
  read(labels);
  if (!has_severity) {
    owner.Error("the label `severity` is missing in `labels`; one of info, warning, critical");
    result.severity = "info";
  }
  return result;
}

Annotations ParseAnnotations(const yaml::YamlNode& node) {
  Annotations annotations;
  const auto read = [&node](absl::string_view key, std::string* text) {
    const yaml::YamlNode value = node.Get(key);
    *text = value.String();
    const std::string wrong = UnknownPlaceholder(*text);
    if (!wrong.empty()) {
      value.Error(absl::StrCat("unknown placeholder ", wrong, "; allowed: ", PlaceholderNames()));
    }
  };
  read("summary", &annotations.summary);
  read("description", &annotations.description);
  read("runbook", &annotations.runbook);
  return annotations;
}

}  // namespace foreshock::rules
