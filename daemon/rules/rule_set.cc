#include "daemon/rules/rule_set.h"

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/rules/parse.h"
#include "daemon/rules/rule.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::rules {
namespace {

constexpr size_t kAlertsMax = 10'000;

struct Loader {
  // In three passes, because a signature may name alerts of any file.
  absl::StatusOr<std::shared_ptr<const RuleSet>> Load() {
    for (auto& [file, document] : documents) ReadRules(file, document->root());
    LinkRules();
    for (auto& [file, document] : documents) NameSignatures(document->root());
    for (auto& [file, document] : documents) ReadSignatures(file, document->root());
    for (auto& [file, document] : documents) {
      for (std::string& error : document->errors()) errors.push_back(std::move(error));
    }
    errors.insert(errors.end(), bands.errors().begin(), bands.errors().end());
    if (!errors.empty()) return absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
    set->bands = bands.by_path();
    return set;
  }

  void Add(const std::string& name, const std::string& text) {
    documents.emplace_back(name, std::make_unique<yaml::YamlDocument>(name, text));
    v1::RuleFile& file = set->files_.emplace_back();
    file.set_name(name);
    file.set_text(text);
  }

  void Register(const yaml::YamlNode& where, const std::string& name, AlertRef ref) {
    if (name.empty()) return;
    if (!names.by_name.emplace(name, ref).second) {
      where.Error(absl::StrCat("the name ", name,
                               " is taken; names are unique over all rules and signatures"));
      return;
    }
    names.all.push_back(name);
    if (names.all.size() == kAlertsMax + 1) {
      where.Error(absl::StrCat("more than ", kAlertsMax, " rules and signatures are not allowed"));
    }
  }

  void ReadRules(const std::string& file, yaml::YamlNode root) {
    bands.SetFolder(std::filesystem::path(file).parent_path().string());
    for (const yaml::YamlNode& group : root.Get("groups").Items()) {
      const std::string name = group.Require("name").String();
      const yaml::YamlNode defaults = group.Get("defaults");
      for (const yaml::YamlNode& node : group.Require("rules").Items()) {
        Rule rule = ParseRule(name, node, defaults, &bands);
        const yaml::YamlNode accept_while = Keys(node, defaults).Get("accept_while");
        if (accept_while.present()) links.emplace_back(accept_while, set->rules.size());
        Register(node.Get("alert"), rule.name, {.signature = false, .index = set->rules.size()});
        v1::RuleInfo info;
        info.set_group(rule.group);
        info.set_name(rule.name);
        info.set_indicator(rule.input.indicators.empty() ? "" : rule.input.indicators[0]);
        info.set_severity(rule.severity);
        info.set_file(file);
        info.set_summary(rule.annotations.summary);
        info.set_line(static_cast<uint32_t>(node.line()));
        set->infos_.push_back(std::move(info));
        read.push_back(std::make_shared<Rule>(std::move(rule)));
        set->rules.push_back(read.back());
      }
    }
  }

  // A rule may name rules of any file.
  void LinkRules() {
    for (const auto& [node, rule] : links) {
      const auto found = names.by_name.find(node.String());
      if (found == names.by_name.end()) {
        const absl::string_view near = yaml::NearestWord(node.String(), names.all);
        node.Error(absl::StrCat("unknown rule ", node.String(),
                                near.empty() ? "" : absl::StrCat("; did you mean ", near, "?")));
        continue;
      }
      read[rule]->accept_while = found->second.index;
    }
  }

  void NameSignatures(yaml::YamlNode root) {
    for (const yaml::YamlNode& node : root.Get("signatures").Items()) {
      const yaml::YamlNode name = node.Get("signature");
      Register(name, name.String(), {.signature = true, .index = signatures_named++});
    }
  }

  void ReadSignatures(const std::string& file, yaml::YamlNode root) {
    for (const yaml::YamlNode& node : root.Get("signatures").Items()) {
      Signature signature = ParseSignature(node, names, set->signatures.size());
      v1::RuleInfo info;
      info.set_group(signature.group);
      info.set_name(signature.name);
      info.set_severity(signature.severity);
      info.set_file(file);
      info.set_summary(signature.annotations.summary);
      info.set_line(static_cast<uint32_t>(node.line()));
      set->infos_.push_back(std::move(info));
      set->signatures.push_back(std::make_shared<Signature>(std::move(signature)));
    }
  }

  std::vector<std::pair<std::string, std::unique_ptr<yaml::YamlDocument>>> documents;
  std::vector<std::string> errors;
  AlertNames names;
  Bands bands;
  std::vector<std::pair<yaml::YamlNode, size_t>> links;  // `accept_while` of which rule
  std::vector<std::shared_ptr<Rule>> read;               // set->rules, while they may change
  size_t signatures_named = 0;
  std::shared_ptr<CompiledRules> set = std::make_shared<CompiledRules>();
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RuleSet>> LoadRules(absl::Span<const std::string> files) {
  Loader loader;
  for (const std::string& file : files) {
    std::string text;
    const absl::Status status = yaml::ReadYamlFile(file, &text);
    if (!status.ok()) {
      loader.errors.push_back(absl::StrCat("rules: ", status.message()));
      continue;
    }
    loader.Add(file, text);
  }
  return loader.Load();
}

absl::StatusOr<std::shared_ptr<const RuleSet>> ParseRules(absl::string_view name,
                                                          absl::string_view text) {
  Loader loader;
  loader.Add(std::string(name), std::string(text));
  return loader.Load();
}

absl::StatusOr<std::shared_ptr<const RuleSet>> ParseRuleFiles(absl::Span<const v1::RuleFile> files,
                                                              const RuleSet& in_force) {
  Loader loader;
  loader.bands.Only(&dynamic_cast<const CompiledRules&>(in_force).bands);
  for (const v1::RuleFile& file : files) loader.Add(file.name(), file.text());
  return loader.Load();
}

}  // namespace foreshock::rules
