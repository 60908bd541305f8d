#include "daemon/rules/unknown_scalars.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/model/catalogue.h"
#include "daemon/rules/rule.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::rules {
namespace {

// "; did you mean train.loss?"; "" if nothing is near.
std::string Meant(const std::string& name) {
  std::vector<std::string> known;
  for (const absl::string_view usual : UsualScalars()) known.emplace_back(usual);
  const absl::string_view near = yaml::NearestWord(name, known);
  return near.empty() ? "" : absl::StrCat("; did you mean train.", near, "?");
}

}  // namespace

absl::Span<const absl::string_view> UsualScalars() {
  static constexpr absl::string_view kNames[] = {"loss",
                                                 "grad_norm",
                                                 "grad_norm_q",
                                                 "grad_norm_k",
                                                 "lr",
                                                 "aux_loss",
                                                 "tokens",
                                                 "grad_norm_router",
                                                 "loss_scale",
                                                 "update_rms",
                                                 "param_rms",
                                                 "policy_entropy",
                                                 "reward_mean",
                                                 "reward_std",
                                                 "clip_fraction",
                                                 "staleness",
                                                 "log_z",
                                                 "kl",
                                                 "nan_iterations",
                                                 "completion_length",
                                                 "nan_count",
                                                 "skipped_iterations",
                                                 "frac_reward_zero_std"};
  return kNames;
}

std::vector<std::string> UnknownScalars(const RuleSet& rules,
                                        const absl::flat_hash_set<std::string>& sent) {
  const auto& compiled = dynamic_cast<const CompiledRules&>(rules);
  const absl::Span<const absl::string_view> usual = UsualScalars();
  std::vector<std::string> doubts;
  for (size_t i = 0; i < compiled.rules.size(); ++i) {
    const Rule& rule = *compiled.rules[i];
    std::vector<std::string> indicators = rule.input.indicators;
    if (!rule.input.divide_by.empty()) indicators.push_back(rule.input.divide_by);
    for (const std::string& indicator : indicators) {
      absl::string_view name = absl::StripPrefix(indicator, "eval.");
      if (model::FindIndicator(name) != nullptr || !absl::ConsumePrefix(&name, "train.")) continue;
      const bool known = std::find(usual.begin(), usual.end(), name) != usual.end();
      if (known || sent.contains(name)) continue;
      const v1::RuleInfo& info = compiled.infos()[i];
      doubts.push_back(absl::StrCat(info.file(), ":", info.line(), ": the rule ", rule.name,
                                    " looks at ", indicator,
                                    ", which is no usual scalar: it judges only runs that send `",
                                    name, "`", Meant(std::string(name))));
    }
  }
  return doubts;
}

}  // namespace foreshock::rules
