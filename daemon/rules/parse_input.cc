// What a rule looks at: indicator, aggregate, divisor, smoothing, flags.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {
namespace {

const std::vector<std::string>& IndicatorIds() {
  static const auto* ids = [] {
    auto* all = new std::vector<std::string>();
    for (const model::IndicatorInfo& info : model::Indicators()) all->emplace_back(info.id);
    return all;
  }();
  return *ids;
}

bool RunWide(absl::string_view id) {
  const model::IndicatorInfo* info = InfoOf(id);
  return info == nullptr || (info->unit == model::Unit::kNone && !info->per_layer);
}

uint32_t ParseJudgedFlags(const yaml::YamlNode& node) {
  static constexpr std::pair<absl::string_view, uint32_t> kFlags[] = {
      {"grid", model::kFlagGrid},
      {"gram32", model::kFlagGram32},
      {"few_tokens", model::kFlagFewTokens},
      {"partial", model::kFlagPartial}};
  uint32_t not_judged = model::kFlagsNotJudged;
  for (const yaml::YamlNode& item : node.Items()) {
    const std::string word = item.Word({"grid", "gram32", "few_tokens", "partial"});
    for (const auto& [name, flag] : kFlags) {
      if (word == name) not_judged &= ~flag;
    }
  }
  return not_judged;
}

}  // namespace

std::string ParseIndicator(const yaml::YamlNode& node) {
  std::string id = node.String();
  if (!node.present() || !node.is_scalar() || model::IsKnownIndicator(id)) return id;
  const absl::string_view near = yaml::NearestWord(id, IndicatorIds());
  node.Error(absl::StrCat("unknown indicator ", id, "; ",
                          near.empty() ? "" : absl::StrCat("did you mean ", near, "? "),
                          "Allowed are the ids of the catalogue, train.<scalar name>, and both "
                          "behind eval."));
  return id;
}

const model::IndicatorInfo* InfoOf(absl::string_view id) {
  return model::FindIndicator(absl::StripPrefix(id, "eval."));
}

Input::Scope ParseScope(const yaml::YamlNode& node) {
  const std::string word = node.Word({"any", "rank", "run"}, "any");
  return word == "rank"  ? Input::Scope::kRank
         : word == "run" ? Input::Scope::kRun
                         : Input::Scope::kAny;
}

Input::Aggregate ParseAggregate(const yaml::YamlNode& node) {
  const std::string word = node.Word(kAggregateNames, kAggregateNames[0]);
  const auto* const found = std::find(std::begin(kAggregateNames), std::end(kAggregateNames), word);
  return static_cast<Input::Aggregate>(found - std::begin(kAggregateNames));
}

Input ParseInput(const yaml::YamlNode& node, const Keys& keys) {
  Input input;
  const yaml::YamlNode indicator = node.Get("indicator");
  const yaml::YamlNode several = node.Get("indicators");
  const yaml::YamlNode combine = node.Get("combine");
  if (several.present()) {
    if (indicator.present()) several.Error("`indicators` and `indicator` exclude each other");
    for (const yaml::YamlNode& item : several.Items()) {
      input.indicators.push_back(ParseIndicator(item));
      if (item.is_scalar() && !RunWide(input.indicators.back())) {
        item.Error(absl::StrCat(input.indicators.back(),
                                " has layers or units; only run-wide indicators can be combined"));
      }
    }
    if (input.indicators.size() < 2 || input.indicators.size() > 16) {
      several.Error(absl::StrCat("`indicators` has ", input.indicators.size(),
                                 " items; 2 to 16 are allowed"));
    }
    if (!combine.present()) several.Error("`combine` is missing beside `indicators`");
    const std::string word = combine.Word({"norm", "sum", "mean", "min", "max"}, "norm");
    input.combine = word == "norm"   ? Input::Combine::kNorm
                    : word == "sum"  ? Input::Combine::kSum
                    : word == "mean" ? Input::Combine::kMean
                    : word == "min"  ? Input::Combine::kMin
                                     : Input::Combine::kMax;
  } else {
    if (!indicator.present()) node.Error("the key `indicator` is missing");
    if (combine.present()) combine.Error("`combine` needs `indicators`");
    input.indicators.push_back(ParseIndicator(indicator));
  }

  input.scope = ParseScope(node.Get("scope"));
  input.aggregate = ParseAggregate(keys.Get("aggregate"));

  const yaml::YamlNode divide_by = node.Get("divide_by");
  if (divide_by.present()) {
    input.divide_by = ParseIndicator(divide_by);
    if (!RunWide(input.divide_by)) {
      divide_by.Error(absl::StrCat(input.divide_by,
                                   " has layers or units; only a run-wide indicator can divide"));
    }
  }
  const yaml::YamlNode siblings = keys.Get("siblings");
  input.siblings = siblings.Bool(false);
  if (input.siblings && input.scope == Input::Scope::kRun) {
    siblings.Error(
        "a run-wide value has no siblings; leave `scope: run` out, or write `scope: rank`");
  }
  if (input.siblings && RunWide(input.indicators[0]) && input.scope != Input::Scope::kRank) {
    siblings.Error(
        absl::StrCat(input.indicators[0], " has no layers; with `scope: rank` ranks are compared"));
  }
  input.smooth = static_cast<int>(keys.Get("smooth").Get("median").Int({1, 1000}, 1));
  input.flags_not_judged = ParseJudgedFlags(keys.Get("judge_flags"));
  return input;
}

}  // namespace foreshock::rules
